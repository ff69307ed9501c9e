// Words: how a text becomes what the index holds. Pure functions.

/** Longer runs of letters are hashes and minified code, not words. */
const WORD_LENGTH_MAX = 40;

/** The words of a text, in order, in lower case. */
export function splitWords(text: string): string[] {
  const words = text.toLowerCase().match(/\p{L}[\p{L}\p{N}_]*/gu) ?? [];
  return words.filter((word) => word.length <= WORD_LENGTH_MAX);
}

/** How often each word occurs, by falling count, then by word. */
export function countWords(words: readonly string[]): [word: string, count: number][] {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}
