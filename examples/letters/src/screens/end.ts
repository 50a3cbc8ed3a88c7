/** The screen after a run: stars, medals and top scores. */
import { face } from '../animals'
import type { App, Screen } from '../app'
import { el } from '../dom'
import { icon, type IconName } from '../icons'
import { readStorage, writeStorage } from '../storage'
import { nameOf } from '../names'
import { roundButton, soundButton, scoreList } from '../components'
import { ALPHABET } from '../puzzle'
import type { Run } from '../run'
import { home } from './home'
import { round } from './round'

/** The medals; their keys are those of the game's achievements. */
const MEDALS: { key: string; name: string; icon: IconName; isEarned: (run: Run, known: string) => boolean }[] = [
  { key: 'first-run', name: 'First run', icon: 'medal', isEarned: () => true },
  { key: 'all-stars', name: 'All stars in a run', icon: 'star', isEarned: (run) => run.perfect },
  {
    key: 'alphabet',
    name: 'The whole alphabet',
    icon: 'letters',
    isEarned: (_, known) => known.length === ALPHABET.length,
  },
]

export function end(app: App, run: Run): Screen {
  const name = nameOf(app.friend)
  const count = run.stars
  const heading = el(
    'h1',
    { class: 'count', tabindex: -1, label: `${count} stars. Well done, ${name}!` },
    icon('star'),
    el('span', { mute: true }, String(count)),
  )
  const medals = el('ul', { class: 'medals', label: 'Your medals' })
  const place = el('div', { class: 'place' })
  const bar = el(
    'header',
    { class: 'bar' },
    roundButton('home', 'Home', () => app.show(home(app))),
    soundButton(app),
  )
  const again = roundButton('again', 'Play again', () => app.show(round(app)), 'play')
  const dancer = el('div', { class: 'dancer', mute: true }, face(app.friend.animal))
  const root = el(
    'section',
    { class: 'end' },
    bar,
    el('div', { class: 'joy' }, dancer, heading, medals),
    place,
    again,
  )
  app.backend.track('run_end', { value: count, props: { rounds: run.rounds, perfect: run.perfect } })
  awardMedals(app, run, medals)
  void submitScore(app, run, place)
  const party = setTimeout(() => celebrate(app, count, heading), 150)
  const key = (pressed: string) => pressed === 'Escape' && (app.show(home(app)), true)
  return { root, focus: heading, key, leave: () => (clearTimeout(party), app.voice.stop()) }
}

function celebrate(app: App, count: number, heading: HTMLElement): void {
  app.sound.hooray()
  app.confetti.burst(heading, 140)
  app.voice.say([`${count} stars!`, 'Well done!'])
}

/** Submits the score and shows the top scores. */
async function submitScore(app: App, run: Run, place: HTMLElement): Promise<void> {
  await app.backend.submit(run.stars, run.quickness(Date.now()))
  const rows = await app.backend.topScores()
  if (rows.length) place.replaceChildren(scoreList(rows))
}

function awardMedals(app: App, run: Run, list: HTMLElement): void {
  const known = [...new Set([...String(readStorage('known') ?? ''), ...run.letters])].join('')
  writeStorage('known', known)
  const before = new Set(Array.isArray(readStorage('medals')) ? (readStorage('medals') as string[]) : [])
  const has = MEDALS.filter(({ key, isEarned }) => before.has(key) || isEarned(run, known))
  writeStorage(
    'medals',
    has.map(({ key }) => key),
  )
  for (const { key } of has) void app.backend.grant(key)
  list.replaceChildren(
    ...has.map(({ key, name, icon: iconName }) =>
      el(
        'li',
        { class: before.has(key) ? key : `${key} new` },
        icon(iconName),
        el('span', { class: 'quiet' }, name),
      ),
    ),
  )
}
