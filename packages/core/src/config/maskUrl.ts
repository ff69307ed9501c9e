// MaskUrl: database URLs as they may be printed.

/** The URL with every password in it replaced by `***`. Takes any text; what is no URL stays as it is. */
export function maskUrl(url: string): string {
  return (
    url
      // Up to the last @, also over characters that the password should have encoded; a port is no password.
      .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/?#:@]*):(?!\d+(?:[/?#][^@=]*)?(?:=|$)).*@/i, "$1:***@")
      .replace(/([?&](?:password|sslpassword|passfile)=)[^&#]*/gi, "$1***")
  );
}
