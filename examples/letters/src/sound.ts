/** Sound effects synthesized by the browser. */

/** Frequencies in Hz of a major scale. */
const C = 523.25
const NOTES = { C, E: C * 1.25, G: C * 1.5, high: C * 2, low: C * 0.75 }

export class Sound {
  on = true
  #context: AudioContext | undefined

  tap(): void {
    this.#play([NOTES.G], 0.08)
  }

  right(): void {
    this.#play([NOTES.C, NOTES.E, NOTES.G, NOTES.high], 0.09)
  }

  /** A friendly sound, not an error. */
  wrong(): void {
    this.#play([NOTES.C * 0.9, NOTES.low], 0.14, 'sine')
  }

  hooray(): void {
    this.#play([NOTES.C, NOTES.C, NOTES.G, NOTES.E, NOTES.G, NOTES.high], 0.13)
  }

  #play(notes: number[], seconds: number, shape: OscillatorType = 'triangle'): void {
    if (!this.on || !globalThis.AudioContext) return
    const context = (this.#context ??= new AudioContext())
    void context.resume()
    notes.forEach((hertz, i) => this.#note(context, hertz, context.currentTime + i * seconds, seconds, shape))
  }

  #note(context: AudioContext, hertz: number, at: number, seconds: number, shape: OscillatorType): void {
    const note = context.createOscillator()
    const volume = context.createGain()
    note.type = shape
    note.frequency.value = hertz
    volume.gain.setValueAtTime(0, at)
    volume.gain.linearRampToValueAtTime(0.16, at + 0.015)
    volume.gain.exponentialRampToValueAtTime(0.001, at + seconds * 2.2)
    note.connect(volume).connect(context.destination)
    note.start(at)
    note.stop(at + seconds * 2.3)
  }
}
