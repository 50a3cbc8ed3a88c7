/**
 * Dark or light. The system's choice holds until the person chooses otherwise, and again when they
 * choose what the system has.
 */
export type Theme = 'light' | 'dark'

const REMEMBERED = 'playmeter.theme'
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
    const wanted = this.current === 'dark' ? 'light' : 'dark'
    this.#chosen = wanted === this.#system ? undefined : wanted
    remember(this.#chosen)
  }
}

export const theme = new ThemeChoice()

function readChosen(): Theme | undefined {
  const chosen = document.documentElement.dataset.theme
  return chosen === 'light' || chosen === 'dark' ? chosen : undefined
}

function remember(chosen: Theme | undefined): void {
  if (chosen) document.documentElement.dataset.theme = chosen
  else delete document.documentElement.dataset.theme
  try {
    if (chosen) localStorage.setItem(REMEMBERED, chosen)
    else localStorage.removeItem(REMEMBERED)
  } catch {
    // Private windows may forbid storage: the choice then lasts as long as the page.
  }
}
