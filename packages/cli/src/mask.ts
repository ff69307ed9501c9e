// Mask: passwords never reach a log, a message or a screen; only `db url` prints one, because that is what it is for.

const URL_PASSWORD = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):[^\s@]*@/gi;
const QUERY_PASSWORD = /([?&](?:password|sslpassword)=)[^&\s]*/gi;

/** The text with the password of every URL in it replaced by `***`. */
export function maskText(text: string): string {
  return text.replaceAll(URL_PASSWORD, "$1:***@").replaceAll(QUERY_PASSWORD, "$1***");
}
