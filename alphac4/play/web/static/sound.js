// A stone that lands, for those who want to hear it.

let context = null;

export function knock() {
  context ??= new AudioContext();
  const tone = context.createOscillator(), volume = context.createGain(), now = context.currentTime + 0.3;
  tone.type = "triangle";
  tone.frequency.setValueAtTime(220, now);
  tone.frequency.exponentialRampToValueAtTime(90, now + 0.08);
  volume.gain.setValueAtTime(0.0001, context.currentTime);
  volume.gain.setValueAtTime(0.25, now);
  volume.gain.exponentialRampToValueAtTime(0.001, now + 0.12);
  tone.connect(volume).connect(context.destination);
  tone.start(now);
  tone.stop(now + 0.13);
}
