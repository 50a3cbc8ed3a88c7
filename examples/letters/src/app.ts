/** The state that the screens share: player, sound, server, and navigation between screens. */
import { Confetti } from './confetti'
import { Backend } from './backend'
import { readStorage, writeStorage } from './storage'
import { randomFriend, type Friend, parseFriend, nameOf } from './names'
import { Sound } from './sound'
import { Voice } from './voice'

/** A screen: its content, key handler and cleanup. */
export interface Screen {
  root: HTMLElement
  /** The element that is focused first. */
  focus: HTMLElement
  /** Handles a key; returns true if it did. */
  key?: (key: string) => boolean
  leave?: () => void
}

export class App {
  readonly voice = new Voice()
  readonly sound = new Sound()
  readonly confetti: Confetti
  readonly backend: Backend
  readonly #main: HTMLElement
  readonly #status: HTMLElement
  #friend: Friend
  #screen: Screen | undefined

  constructor(page: Document) {
    this.#main = page.querySelector('main')!
    this.#status = page.querySelector('[role=status]')!
    this.confetti = new Confetti(page.querySelector('canvas')!)
    this.#friend = parseFriend(readStorage('friend')) ?? randomFriend(Math.random)
    this.backend = new Backend(nameOf(this.#friend))
    this.soundOn = readStorage('silent') !== true
    page.addEventListener('keydown', (event) => this.#onKeyDown(event))
  }

  get friend(): Friend {
    return this.#friend
  }

  set friend(friend: Friend) {
    this.#friend = friend
    writeStorage('friend', friend)
    this.backend.rename(nameOf(friend))
  }

  get soundOn(): boolean {
    return this.sound.on
  }

  set soundOn(soundOn: boolean) {
    this.sound.on = this.voice.on = soundOn
    if (!soundOn) this.voice.stop()
    writeStorage('silent', !soundOn)
  }

  show(screen: Screen): void {
    this.#screen?.leave?.()
    this.#screen = screen
    this.#main.replaceChildren(screen.root)
    screen.focus.focus({ preventScroll: true })
  }

  /** Announces a text to screen readers. */
  announce(text: string): void {
    this.#status.textContent = text
  }

  #onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (this.#screen?.key?.(event.key)) event.preventDefault()
  }
}
