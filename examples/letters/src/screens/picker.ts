/** The screen to choose a friend: a face and an invented name. No personal data is asked for. */
import { face } from '../animals'
import type { App, Screen } from '../app'
import { el } from '../dom'
import { type Animal, ANIMALS, randomWord, nameOf } from '../names'
import { roundButton, soundButton } from '../components'
import { home } from './home'

export function picker(app: App): Screen {
  const back = () => app.show(home(app))
  const heading = el('h1', { class: 'quiet', tabindex: -1 }, 'Choose a friend')
  const name = el('p', { class: 'name big' })
  const buttons = ANIMALS.map((animal) => animalButton(animal, () => choose(animal)))
  const show = () => {
    name.textContent = nameOf(app.friend)
    buttons.forEach((button, i) =>
      button.setAttribute('aria-pressed', String(ANIMALS[i] === app.friend.animal)),
    )
  }
  const choose = (animal: Animal) => {
    app.friend = { animal, word: randomWord(Math.random, app.friend.word) }
    app.sound.tap()
    app.voice.say([nameOf(app.friend)])
    app.announce(`You are ${nameOf(app.friend)}`)
    show()
  }
  show()
  const bar = el('header', { class: 'bar' }, roundButton('home', 'Home', back), soundButton(app))
  const mix = roundButton('mix', 'Change name', () => choose(app.friend.animal), 'mix')
  const done = roundButton('done', 'Done', back, 'play')
  const key = (pressed: string) => pressed === 'Escape' && (back(), true)
  const root = el(
    'section',
    { class: 'picker' },
    bar,
    heading,
    el('div', { class: 'faces' }, ...buttons),
    el('div', { class: 'named' }, name, mix),
    done,
  )
  return { root, focus: heading, key }
}

function animalButton(animal: Animal, press: () => void): HTMLButtonElement {
  return el('button', { class: 'animal', label: animal, press }, face(animal))
}
