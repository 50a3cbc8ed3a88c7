/**
 * The light or dark theme. It follows the system until the user switches; switching back to the
 * system's theme makes it follow the system again.
 */
export type Theme = 'light' | 'dark'

const STORAGE_KEY = 'playmeter.theme'
const system = matchMedia('(prefers-color-scheme: dark)')

class ThemeChoice {
  #chosen = $state<Theme | undefined>(readChosen())
  #system = $state<Theme>(system.matches ? 'dark' : 'light')

  constructor() {
    system.addEventListener('change', () => (this.#system = system.matches ? 'dark' : 'light'))
  }

  get current(): Theme {
    return this.#chosen ?? this.#system
  }

  toggle(): void {
    const next = this.current === 'dark' ? 'light' : 'dark'
    this.#chosen = next === this.#system ? undefined : next
    store(this.#chosen)
  }
}

export const theme = new ThemeChoice()

function readChosen(): Theme | undefined {
  const chosen = document.documentElement.dataset.theme
  return chosen === 'light' || chosen === 'dark' ? chosen : undefined
}

function store(chosen: Theme | undefined): void {
  if (chosen) document.documentElement.dataset.theme = chosen
  else delete document.documentElement.dataset.theme
  try {
    if (chosen) localStorage.setItem(STORAGE_KEY, chosen)
    else localStorage.removeItem(STORAGE_KEY)
  } catch {
    // Storage may be unavailable in private windows: the choice then lasts until the page is closed.
  }
}
