/** Components that several screens use. */
import type { ScoreRow } from 'playmeter'
import { face } from './animals'
import type { App } from './app'
import { el } from './dom'
import { icon, type IconName } from './icons'
import { animalOf } from './names'

/** The number of colour classes, `hue-0` and following. */
const COLOURS = 5

export function roundButton(name: IconName, label: string, press: () => void, names = ''): HTMLButtonElement {
  return el('button', { class: `round ${names}`, label, press }, icon(name))
}

export function soundButton(app: App): HTMLButtonElement {
  const button = el('button', { class: 'round', label: 'Sound and voice' })
  const show = () => {
    button.setAttribute('aria-pressed', String(app.soundOn))
    button.replaceChildren(icon(app.soundOn ? 'voice' : 'silent'))
  }
  button.addEventListener('click', () => {
    app.soundOn = !app.soundOn
    app.sound.tap()
    show()
  })
  show()
  return button
}

export function tile(letter: string, place: number, names = ''): HTMLSpanElement {
  return el('span', { class: `tile hue-${place % COLOURS} ${names}` }, letter)
}

/** The stars of one puzzle. */
export function stars(count: number): HTMLSpanElement {
  const shown = Array.from({ length: count }, () => icon('star'))
  return el('span', { class: 'stars-of', mute: true }, ...shown)
}

export function scoreList(rows: ScoreRow[]): HTMLElement {
  return el('ol', { class: 'board', label: 'Top scores' }, ...rows.map(scoreRow))
}

function scoreRow({ rank, name, score, submitted }: ScoreRow): HTMLLIElement {
  const line = el(
    'li',
    { class: submitted ? 'own' : '' },
    el('span', { class: `rank rank-${rank}` }, String(rank)),
    face(animalOf(name)),
    el('span', { class: 'name' }, name),
    el('span', { class: 'score', label: `${score} stars`, role: 'img' }, icon('star'), String(score)),
  )
  if (submitted) line.setAttribute('aria-current', 'true')
  return line
}
