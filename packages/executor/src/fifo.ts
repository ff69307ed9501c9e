// Fifo: a queue whose front is taken without moving the rest.

/** Taken entries at the front of the array before it is cut; keeps both the shifting and the garbage rare. */
const CUT_AT = 1_024;

export class Fifo<T> {
  #entries: T[] = [];
  #head = 0;

  get length(): number {
    return this.#entries.length - this.#head;
  }

  get first(): T | undefined {
    return this.#entries[this.#head];
  }

  push(entry: T): void {
    this.#entries.push(entry);
  }

  shift(): T | undefined {
    const entry = this.#entries[this.#head];
    if (entry === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#entries.length) {
      this.#entries = [];
      this.#head = 0;
    } else if (this.#head >= CUT_AT) {
      this.#entries.splice(0, this.#head);
      this.#head = 0;
    }
    return entry;
  }

  some(test: (entry: T) => boolean): boolean {
    for (let index = this.#head; index < this.#entries.length; index++) {
      if (test(this.#entries[index] as T)) return true; // within bounds
    }
    return false;
  }
}
