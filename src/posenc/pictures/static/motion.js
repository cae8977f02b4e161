// Motion: a change is shown in 300 ms, and at once where the system asks for less.
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Calls paint with shares that go smoothly from 0 to 1; the returned function stops it.
export function tween(paint) {
  const begun = performance.now();
  let frame = 0;
  const next = (now) => {
    const share = still() ? 1 : Math.min(1, Math.max(0, (now - begun) / 300));
    paint(share * share * (3 - 2 * share));
    if (share < 1) frame = requestAnimationFrame(next);
  };
  next(begun);
  return () => cancelAnimationFrame(frame);
}
