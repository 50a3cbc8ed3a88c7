/** What the screens share: who plays, what is heard and seen, and the way from one screen to the next. */
import { Confetti } from './confetti'
import { Line } from './line'
import { recall, remember } from './memory'
import { anyFriend, type Friend, friendFrom, nameOf } from './names'
import { Sound } from './sound'
import { Voice } from './voice'

/** A screen: what it shows, the keys it knows, and what it does when it is left. */
export interface Screen {
  root: HTMLElement
  /** Where the keyboard and the screen reader begin. */
  focus: HTMLElement
  key?: (key: string) => boolean
  leave?: () => void
}

export class App {
  readonly voice = new Voice()
  readonly sound = new Sound()
  readonly confetti: Confetti
  readonly line: Line
  readonly #main: HTMLElement
  readonly #status: HTMLElement
  #friend: Friend
  #screen: Screen | undefined

  constructor(page: Document) {
    this.#main = page.querySelector('main')!
    this.#status = page.querySelector('[role=status]')!
    this.confetti = new Confetti(page.querySelector('canvas')!)
    this.#friend = friendFrom(recall('friend')) ?? anyFriend(Math.random)
    this.line = new Line(nameOf(this.#friend))
    this.loud = recall('silent') !== true
    page.addEventListener('keydown', (event) => this.#typed(event))
  }

  get friend(): Friend {
    return this.#friend
  }

  set friend(friend: Friend) {
    this.#friend = friend
    remember('friend', friend)
    this.line.rename(nameOf(friend))
  }

  get loud(): boolean {
    return this.sound.on
  }

  set loud(loud: boolean) {
    this.sound.on = this.voice.on = loud
    if (!loud) this.voice.hush()
    remember('silent', !loud)
  }

  show(screen: Screen): void {
    this.#screen?.leave?.()
    this.#screen = screen
    this.#main.replaceChildren(screen.root)
    screen.focus.focus({ preventScroll: true })
  }

  /** For those who cannot see the screen. */
  tell(text: string): void {
    this.#status.textContent = text
  }

  #typed(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (this.#screen?.key?.(event.key)) event.preventDefault()
  }
}
