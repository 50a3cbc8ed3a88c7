/** The first screen: the player and the play button. */
import { face } from '../animals'
import type { App, Screen } from '../app'
import { el } from '../dom'
import { nameOf } from '../names'
import { roundButton, soundButton, tile } from '../components'
import { best } from './best'
import { picker } from './picker'
import { round } from './round'

export function home(app: App): Screen {
  const name = nameOf(app.friend)
  const title = el(
    'h1',
    { class: 'title', label: 'A, B, which letter, D', tabindex: -1 },
    ...'AB?D'.split('').map((letter, i) => tile(letter, i, letter === '?' ? 'gap' : '')),
  )
  const play = roundButton('play', 'Play', () => start(app), 'play')
  const friend = el(
    'button',
    { class: 'friend', label: `You are ${name}. Choose another friend`, press: () => app.show(picker(app)) },
    face(app.friend.animal),
    el('span', { class: 'name' }, name),
  )
  const bar = el(
    'header',
    { class: 'bar' },
    roundButton('cup', 'Best players', () => app.show(best(app))),
    soundButton(app),
  )
  const key = (pressed: string) => {
    if (pressed !== 'Enter' || document.activeElement !== title) return false
    start(app)
    return true
  }
  return { root: el('section', { class: 'home' }, bar, title, friend, play), focus: title, key }
}

function start(app: App): void {
  app.sound.tap()
  app.show(round(app))
}
