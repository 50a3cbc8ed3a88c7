/** Speech by the browser. The game works without it. */

const PRAISE = ['Yes!', 'Great!', 'Well done!', 'Hooray!', 'Super!']

export class Voice {
  on = true
  /** 1 is the normal speed of the voice. */
  rate = 0.85

  /** Cancels any speech and speaks the words one by one. `onWord` is called with the index of each word when it starts. */
  say(words: string[], onWord: (index: number) => void = () => {}): void {
    const speech = globalThis.speechSynthesis
    speech?.cancel()
    if (!this.on || !speech) return
    for (const [index, word] of words.entries()) {
      const utterance = new SpeechSynthesisUtterance(word)
      utterance.lang = 'en-US'
      utterance.rate = this.rate
      utterance.pitch = 1.15
      utterance.onstart = () => onWord(index)
      speech.speak(utterance)
    }
  }

  praise(random: number): string {
    return PRAISE[Math.floor(random * PRAISE.length)]!
  }

  stop(): void {
    globalThis.speechSynthesis?.cancel()
  }
}
