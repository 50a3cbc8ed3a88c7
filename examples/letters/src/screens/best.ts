/** The screen with the top scores. */
import type { App, Screen } from '../app'
import { el } from '../dom'
import { icon } from '../icons'
import { roundButton, soundButton, scoreList } from '../components'
import { home } from './home'

const POLL_MS = 4_000

export function best(app: App): Screen {
  const back = () => app.show(home(app))
  const heading = el('h1', { class: 'count', tabindex: -1, label: 'Best players' }, icon('cup'))
  const place = el(
    'div',
    { class: 'place' },
    el('p', { class: 'empty' }, icon('star'), icon('star'), icon('star')),
  )
  let shown = ''
  const show = async () => {
    const rows = await app.backend.topScores()
    const text = JSON.stringify(rows)
    if (!rows.length || text === shown) return
    shown = text
    place.replaceChildren(scoreList(rows))
  }
  void show()
  const timer = setInterval(() => document.hidden || show(), POLL_MS)
  const bar = el('header', { class: 'bar' }, roundButton('home', 'Home', back), soundButton(app))
  const key = (pressed: string) => pressed === 'Escape' && (back(), true)
  return {
    root: el('section', { class: 'best' }, bar, heading, place),
    focus: heading,
    key,
    leave: () => clearInterval(timer),
  }
}
