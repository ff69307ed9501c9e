// WordIndex: the example's own tables, in a schema of its own beside the engine's.
// I1  All rows of one file change in one transaction, and writing the same file again leaves the same rows. A step runs
//     at least once, so what it writes must not depend on how often.
// I2  An older version of a file never replaces a newer one.

import pg from "pg";

export interface IndexedFile {
  path: string;
  modifiedMs: number;
  words: number;
  counts: readonly (readonly [word: string, count: number])[];
}

export interface Hit {
  path: string;
  /** How often the words occur in the file, together. */
  count: number;
}

export class WordIndex {
  readonly #pool: pg.Pool;

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 4, application_name: "ingest" });
    // A connection that is lost while idle is replaced at the next query; that one's error reaches its caller.
    this.#pool.on("error", () => undefined);
  }

  /** Creates the tables. Safe from several processes at once. */
  async create(): Promise<void> {
    await this.#pool.query(`
      BEGIN;
      SELECT pg_advisory_xact_lock(hashtext('gen-durable ingest'));
      CREATE SCHEMA IF NOT EXISTS ingest;
      CREATE TABLE IF NOT EXISTS ingest.files (
        path text PRIMARY KEY, modified_ms bigint NOT NULL, words int NOT NULL, distinct_words int NOT NULL);
      CREATE TABLE IF NOT EXISTS ingest.words (
        word text NOT NULL, path text NOT NULL REFERENCES ingest.files ON DELETE CASCADE, count int NOT NULL,
        PRIMARY KEY (word, path));
      CREATE INDEX IF NOT EXISTS words_path ON ingest.words (path);
      COMMIT;
    `);
  }

  /** I1, I2. */
  async write(file: IndexedFile): Promise<void> {
    const client = await this.#pool.connect();
    let failure: Error | undefined;
    try {
      await client.query("BEGIN");
      const { rowCount } = await client.query(
        `INSERT INTO ingest.files AS f (path, modified_ms, words, distinct_words) VALUES ($1, $2, $3, $4)
         ON CONFLICT (path) DO UPDATE
           SET modified_ms = excluded.modified_ms, words = excluded.words, distinct_words = excluded.distinct_words
           WHERE f.modified_ms <= excluded.modified_ms`,
        [file.path, file.modifiedMs, file.words, file.counts.length],
      );
      if (rowCount === 1) {
        await client.query("DELETE FROM ingest.words WHERE path = $1", [file.path]);
        await client.query(
          `INSERT INTO ingest.words (word, path, count)
           SELECT word, $1, count FROM unnest($2::text[], $3::int[]) AS t (word, count)`,
          [file.path, file.counts.map(([word]) => word), file.counts.map(([, count]) => count)],
        );
      }
      await client.query("COMMIT");
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      // A connection in the middle of a failed transaction is not given to anybody else.
      client.release(failure);
    }
  }

  /** The files that contain all the words, those with the most occurrences first. */
  async search(words: readonly string[], limit: number): Promise<Hit[]> {
    const { rows } = await this.#pool.query<{ path: string; count: string }>(
      `SELECT path, sum(count) AS count FROM ingest.words WHERE word = ANY ($1)
       GROUP BY path HAVING count(*) = cardinality($1) ORDER BY sum(count) DESC, path LIMIT $2`,
      [words, limit],
    );
    return rows.map((row) => ({ path: row.path, count: Number(row.count) }));
  }

  /** How much the index holds. */
  async size(): Promise<{ files: number; words: number; rows: number }> {
    const { rows } = await this.#pool.query<{ files: string; words: string; entries: string }>(
      `SELECT (SELECT count(*) FROM ingest.files) AS files, (SELECT coalesce(sum(words), 0) FROM ingest.files) AS words,
              (SELECT count(*) FROM ingest.words) AS entries`,
    );
    const [row] = rows;
    return { files: Number(row?.files), words: Number(row?.words), rows: Number(row?.entries) };
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}
