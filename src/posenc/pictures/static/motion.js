// Animation: a change takes 300 ms, or is immediate if the system asks for reduced motion.
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Call paint with numbers that go smoothly from 0 to 1; the returned function stops the animation.
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
