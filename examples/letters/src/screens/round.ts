/** The screen of a run. */
import type { App, Screen } from '../app'
import { restartAnimation, el } from '../dom'
import { roundButton, soundButton, stars, tile } from '../components'
import { type Puzzle, clampInt } from '../puzzle'
import { Run } from '../run'
import { end } from './end'
import { home } from './home'

const ROUNDS = { min: 1, max: 12 }
const HINT_S = { min: 2, max: 120 }
/** How long a solved row is shown: long enough to be read aloud. */
const SOLVED_MS = 2_000
const WRONG_UNTIL_HINT = 2

export function round(app: App): Screen {
  return new Round(app).screen
}

class Round {
  readonly screen: Screen
  readonly #app: App
  readonly #run: Run
  readonly #heading = el('h1', { class: 'quiet', tabindex: -1 })
  readonly #progress = el('ol', { class: 'progress', label: 'Stars of this run' })
  readonly #row = el('div', { class: 'row' })
  readonly #choices = el('div', { class: 'choices', role: 'group', label: 'Letters to choose from' })
  #puzzle: Puzzle | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #hint: ReturnType<typeof setTimeout> | undefined

  constructor(app: App) {
    this.#app = app
    this.#run = new Run(clampInt(app.backend.vars.rounds, ROUNDS), Date.now(), Math.random)
    const bar = el(
      'header',
      { class: 'bar' },
      roundButton('home', 'Home', () => this.#quit()),
      this.#progress,
      soundButton(app),
    )
    const say = roundButton('say', 'Say it again', () => this.#say(), 'say')
    const root = el('section', { class: 'puzzle' }, bar, this.#heading, this.#row, say, this.#choices)
    this.screen = { root, focus: this.#heading, key: (key) => this.#key(key), leave: () => this.#leave() }
    app.backend.track('$play')
    this.#next()
  }

  #next(): void {
    const puzzle = this.#run.next(this.#app.backend.vars, Date.now())
    this.#puzzle = puzzle
    this.#showProgress()
    if (!puzzle) return this.#app.show(end(this.#app, this.#run))
    const { row, gap, missing, choices } = puzzle
    this.#track('start')
    this.#row.replaceChildren(...row.map((letter, i) => (i === gap ? tile('?', i, 'gap') : tile(letter, i))))
    this.#choices.replaceChildren(...choices.map((letter, i) => this.#choice(letter, i)))
    const description = row.map((letter, i) => (i === gap ? 'blank' : letter)).join(', ')
    this.#row.setAttribute('role', 'img')
    this.#row.setAttribute('aria-label', description)
    this.#heading.textContent = `Which letter is missing? ${description}`
    this.#heading.focus({ preventScroll: true })
    this.#hint = setTimeout(() => this.#wink(missing), clampInt(this.#app.backend.vars.hint_s, HINT_S) * 1000)
    this.#say()
  }

  #choice(letter: string, place: number): HTMLButtonElement {
    const button = el(
      'button',
      { class: `choice hue-${(place + 2) % 5}`, press: () => this.#choose(letter, button) },
      letter,
    )
    return button
  }

  #choose(letter: string, button: HTMLButtonElement): void {
    const { missing } = this.#puzzle!
    if (this.#timer || button.getAttribute('aria-disabled')) return
    const { right, stars: earned, seconds, tries } = this.#run.choose(letter, Date.now())
    this.#app.backend.track('answer', {
      value: seconds,
      level: missing,
      props: { letter: missing, chosen: letter, right, tries },
    })
    if (right) return this.#showSolved(button, earned)
    this.#track('retry')
    button.setAttribute('aria-disabled', 'true')
    restartAnimation(button, 'wobble')
    this.#app.sound.wrong()
    this.#app.voice.say([letter, 'Try another one!'])
    this.#app.announce(`${letter} is not the missing letter. Try another one.`)
    if (tries >= WRONG_UNTIL_HINT) this.#wink(missing)
  }

  #showSolved(button: HTMLButtonElement, earned: number): void {
    const { row, gap, missing } = this.#puzzle!
    clearTimeout(this.#hint)
    this.#track('win')
    const found = tile(missing, gap, 'found')
    this.#row.children[gap]!.replaceWith(found)
    this.#choices.querySelectorAll('button').forEach((other) => other.setAttribute('aria-disabled', 'true'))
    button.classList.add('chosen')
    this.#showProgress()
    this.#app.sound.right()
    this.#app.confetti.burst(found, 24 * earned)
    this.#app.voice.say(
      [`${missing}! ${this.#app.voice.praise(Math.random())}`, ...row.map((letter) => letter.toLowerCase())],
      (i) => this.#bounce(i - 1),
    )
    this.#app.announce(`${missing} is right. ${earned} ${earned === 1 ? 'star' : 'stars'}.`)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#next()
    }, SOLVED_MS)
  }

  #showProgress(): void {
    const { earned, rounds } = this.#run
    const places = Array.from({ length: rounds }, (_, i) => {
      const label = i < earned.length ? `${earned[i]} of 3 stars` : i === earned.length ? 'current' : 'not solved yet'
      return el(
        'li',
        { class: i === earned.length ? 'now' : '' },
        stars(earned[i] ?? 0),
        el('span', { class: 'quiet' }, label),
      )
    })
    this.#progress.replaceChildren(...places)
  }

  #say(): void {
    const { row, gap } = this.#puzzle!
    const words = row.map((letter, i) => (i === gap ? 'hmm?' : letter.toLowerCase()))
    this.#app.voice.say([...words, 'Which letter is missing?'], (i) => this.#bounce(i))
  }

  #bounce(place: number): void {
    const letter = this.#row.children[place]
    if (letter) restartAnimation(letter, 'hop')
  }

  #wink(missing: string): void {
    for (const button of this.#choices.children)
      button.classList.toggle('wink', button.textContent === missing)
  }

  #key(key: string): boolean {
    if (key === 'Escape') return (this.#quit(), true)
    const buttons = [...this.#choices.querySelectorAll('button')]
    const place = buttons.findIndex(
      (button, i) => button.textContent === key.toUpperCase() || String(i + 1) === key,
    )
    if (place >= 0) {
      this.#choose(buttons[place]!.textContent!, buttons[place]!)
      return true
    }
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key]
    if (!step) return false
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement)
    buttons[at < 0 ? 0 : (at + step + buttons.length) % buttons.length]!.focus()
    return true
  }

  #track(state: 'start' | 'win' | 'retry' | 'quit'): void {
    const level = this.#puzzle?.missing
    if (level) this.#app.backend.track('$level', { level, props: { state } })
  }

  #quit(): void {
    if (!this.#timer) this.#track('quit')
    this.#app.show(home(this.#app))
  }

  #leave(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#hint)
    this.#app.voice.stop()
  }
}
