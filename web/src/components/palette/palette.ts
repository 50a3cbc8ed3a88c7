/** The items of the command palette and how they match a text. */
import type { IconName } from '../icons'

/** The sections of the palette, in order. */
export const SECTIONS = ['Recent', 'Pages', 'Metrics', 'Players', 'Leaderboards', 'Variables', 'Actions'] as const

export interface PaletteItem {
  section: (typeof SECTIONS)[number]
  label: string
  /** Shown after the label; also matched. */
  detail?: string
  icon: IconName
  /** The page to open. */
  href?: string
  /** The action to run, if the item opens no page. */
  run?: () => void
}

export interface PaletteSection {
  name: string
  items: PaletteItem[]
}

/** Items of a section that are shown while a text is entered. */
const ITEMS_MAX = 6

/** Returns the items that match the text by section, the best first. Without a text only pages, recent views and actions. */
export function matching(items: PaletteItem[], text: string): PaletteSection[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const isShown = ({ section }: PaletteItem) =>
    words.length > 0 ? section !== 'Recent' : section === 'Recent' || section === 'Pages' || section === 'Actions'
  const scored = items
    .filter(isShown)
    .map((item) => ({ item, score: score(words, `${item.label} ${item.detail ?? ''}`.toLowerCase()) }))
    .filter(({ score }) => score > 0)
  // The sort is stable: equal items keep their order.
  scored.sort((a, b) => b.score - a.score)
  return SECTIONS.map((name) => {
    const ofSection = scored.filter(({ item }) => item.section === name).map(({ item }) => item)
    return { name, items: words.length > 0 ? ofSection.slice(0, ITEMS_MAX) : ofSection }
  }).filter(({ items }) => items.length > 0)
}

/** Returns 0 unless every word is in the text; the start of the text counts most, then the start of a word. */
function score(words: string[], text: string): number {
  let sum = 1
  for (const word of words) {
    const at = text.indexOf(word)
    if (at < 0) return 0
    const startsWord = at > 0 && text.split(/[^\p{L}\p{N}]+/u).some((part) => part.startsWith(word))
    sum += at === 0 ? 3 : startsWord ? 2 : 1
  }
  return sum
}
