// Bounds: every bound of the crew, in time and otherwise, with its reason.

/** A row that has not begun after this long, while slots are free elsewhere, goes elsewhere. */
export const STEAL_AFTER_MS = 50;

/** Between two looks at threads that have work: half of what may pass unnoticed. */
export const LOOK_MS = 25;

/** A loop that has not turned for three of the session's ticks is blocked: its thread gets no new work. */
export const BLOCKED_AFTER_MS = 60;

/** A blocked loop that also holds up an overdue step ends its thread; long enough not to mistake a busy machine. */
export const BLOCKED_FOR_GOOD_MS = 250;

/** A loop that is blocked for this long is told to the operator, once. */
export const BLOCKED_TELL_MS = 5_000;

/** What a step may take beyond its `timeoutMs` to react to its aborted signal. */
export const TIMEOUT_GRACE_MS = 1_000;

/** How long the neighbours of an overdue step may go on before their thread is ended. */
export const NEIGHBOURS_MS = 30_000;

/** Before a thread is started again after its death; doubles with each death, up to the maximum. */
export const RESPAWN_FIRST_MS = 100;
export const RESPAWN_MAX_MS = 10_000;

/** A thread that lived this long had no part in the deaths before it. */
export const HEALTHY_AFTER_MS = 60_000;

/** A thread that has not loaded its definitions by then is ended and started again. */
export const START_MS_MAX = 60_000;

/** A node without a single ready thread is of no use; its rows are others' after this long. */
export const NONE_READY_MS_MAX = 30_000;

/** What a thread may take to post its last messages when the crew closes. */
export const CLOSE_MS_MAX = 1_000;

/** How long a quarantined row stays alone. One that still runs then is a long step: the thread goes back to all. */
export const QUARANTINE_ALONE_MS = 30_000;

/** How long a thread is kept from new work until it is empty. Long steps in it then stay, and can be hit once. */
export const QUARANTINE_WAIT_MS = 60_000;

/** The same where no other thread takes work meanwhile. */
export const QUARANTINE_WAIT_ONLY_MS = 1_000;

/** With one thread only: how long ordinary rows may use it between two quarantined ones. */
export const QUARANTINE_REST_MS = 100;

/** Rows of one chunk message: enough to make its cost small, few enough for the thread's loop to turn in between. */
export const CHUNK_ROWS_MAX = 256;

/** Characters of a chunk's states, inboxes and children, beyond its first row: it is copied twice on its way. */
export const CHUNK_LENGTH_MAX = 4 * 1024 * 1024;
