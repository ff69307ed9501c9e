// Preload of every node: shifts what its threads believe the time to be, by TORTURE_SKEW_MS. The monotonic clock stays.
const skewMs = Number(process.env.TORTURE_SKEW_MS ?? "0");
if (skewMs !== 0) {
  const RealDate = Date;
  const now = () => RealDate.now() + skewMs;
  // A proxy, so that dates from elsewhere (messages of other threads) are still instances of it.
  globalThis.Date = new Proxy(RealDate, {
    apply: () => new RealDate(now()).toString(),
    construct: (target, given, made) =>
      Reflect.construct(
        target,
        given.length === 0 ? [now()] : given,
        made === globalThis.Date ? target : made,
      ),
    get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
  });
}
