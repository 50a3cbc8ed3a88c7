/** The end of a run: stars, medals, and where one stands. */
import { face } from '../animals'
import type { App, Screen } from '../app'
import { el } from '../dom'
import { icon, type Sign } from '../icons'
import { recall, remember } from '../memory'
import { nameOf } from '../names'
import { roundButton, soundButton, standingList } from '../parts'
import { ALPHABET } from '../puzzle'
import type { Run } from '../run'
import { home } from './home'
import { round } from './round'

/** What can be achieved; the keys are those of the game's catalogue. */
const MEDALS: { key: string; name: string; sign: Sign; won: (run: Run, known: string) => boolean }[] = [
  { key: 'first-run', name: 'The first run', sign: 'medal', won: () => true },
  { key: 'all-stars', name: 'Every star of a run', sign: 'star', won: (run) => run.perfect },
  {
    key: 'alphabet',
    name: 'The whole alphabet',
    sign: 'letters',
    won: (_, known) => known.length === ALPHABET.length,
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
  app.line.track('run_end', { value: count, props: { rounds: run.rounds, perfect: run.perfect } })
  award(app, run, medals)
  void settle(app, run, place)
  const party = setTimeout(() => celebrate(app, count, heading), 150)
  const key = (pressed: string) => pressed === 'Escape' && (app.show(home(app)), true)
  return { root, focus: heading, key, leave: () => (clearTimeout(party), app.voice.hush()) }
}

function celebrate(app: App, count: number, heading: HTMLElement): void {
  app.sound.hooray()
  app.confetti.burst(heading, 140)
  app.voice.say([`${count} stars!`, 'Well done!'])
}

/** The score goes to the board, and the board comes back. */
async function settle(app: App, run: Run, place: HTMLElement): Promise<void> {
  await app.line.submit(run.stars, run.quickness(Date.now()))
  const rows = await app.line.standing()
  if (rows.length) place.replaceChildren(standingList(rows))
}

function award(app: App, run: Run, list: HTMLElement): void {
  const known = [...new Set([...String(recall('known') ?? ''), ...run.letters])].join('')
  remember('known', known)
  const before = new Set(Array.isArray(recall('medals')) ? (recall('medals') as string[]) : [])
  const has = MEDALS.filter(({ key, won }) => before.has(key) || won(run, known))
  remember(
    'medals',
    has.map(({ key }) => key),
  )
  for (const { key } of has) void app.line.grant(key)
  list.replaceChildren(
    ...has.map(({ key, name, sign }) =>
      el(
        'li',
        { class: before.has(key) ? key : `${key} new` },
        icon(sign),
        el('span', { class: 'quiet' }, name),
      ),
    ),
  )
}
