// A stone that lands, for those who want to hear it.

const FALL_SECONDS = 0.3;

let context = null;

function speaker() {
  context ??= new AudioContext();
  if (context.state === "suspended") context.resume(); // made before anybody had touched the page
  return context;
}

export function knock(audio = speaker()) {
  const falls = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const tone = audio.createOscillator(), volume = audio.createGain(), now = audio.currentTime + (falls ? FALL_SECONDS : 0);
  tone.type = "triangle";
  tone.frequency.setValueAtTime(220, now);
  tone.frequency.exponentialRampToValueAtTime(90, now + 0.08);
  volume.gain.setValueAtTime(0.25, now);
  volume.gain.exponentialRampToValueAtTime(0.001, now + 0.12);
  tone.connect(volume).connect(audio.destination);
  tone.start(now);
  tone.stop(now + 0.12);
}
