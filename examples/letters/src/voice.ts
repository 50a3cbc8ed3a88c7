/** The browser's voice. Where there is none, or it is switched off, everything works without it. */

const PRAISE = ['Yes!', 'Great!', 'Well done!', 'Hooray!', 'Super!']

export class Voice {
  on = true
  /** 1 is the speed of the voice itself. */
  rate = 0.85

  /** Says the words one by one, instead of whatever is being said; `each` is told which one begins. */
  say(words: string[], each: (index: number) => void = () => {}): void {
    const speech = globalThis.speechSynthesis
    speech?.cancel()
    if (!this.on || !speech) return
    for (const [index, word] of words.entries()) {
      const utterance = new SpeechSynthesisUtterance(word)
      utterance.lang = 'en-US'
      utterance.rate = this.rate
      utterance.pitch = 1.15
      utterance.onstart = () => each(index)
      speech.speak(utterance)
    }
  }

  praise(random: number): string {
    return PRAISE[Math.floor(random * PRAISE.length)]!
  }

  hush(): void {
    globalThis.speechSynthesis?.cancel()
  }
}
