/** Reads the parameters of a page that asks a question. A parameter that cannot be used is listed, and its default is used. */
import { formatFilter, parseFilter, type Filter } from './conditions'
import type { ParameterError } from './question'
import { parseRange, type Range } from './range'

export class ParamReader {
  readonly errors: ParameterError[] = []
  readonly #params: URLSearchParams

  constructor(params: URLSearchParams) {
    this.#params = params
  }

  reject(parameter: string, message: string): void {
    this.errors.push({ parameter, message })
  }

  text(name: string): string {
    return this.#params.get(name) ?? ''
  }

  choice<T extends string>(name: string, choices: readonly T[], otherwise: T): T {
    const text = this.text(name)
    if (text === '') return otherwise
    const found = choices.find((choice) => choice === text)
    if (found === undefined) this.reject(name, `must be one of ${choices.join(', ')}`)
    return found ?? otherwise
  }

  integer(name: string, min: number, max: number, otherwise: number): number {
    const text = this.text(name)
    if (text === '') return otherwise
    const number = Number(text)
    if (Number.isInteger(number) && number >= min && number <= max) return number
    this.reject(name, `must be a number from ${min} to ${max}`)
    return otherwise
  }

  /** Reads a repeated parameter; `read` returns `undefined` for a text that cannot be used. */
  list<T>(name: string, max: number, read: (text: string) => T | undefined, example: string): T[] {
    const items = this.#params.getAll(name).flatMap((text) => {
      const item = read(text)
      if (item === undefined) this.reject(name, `"${text}" cannot be read; an example is ${example}`)
      return item === undefined ? [] : [item]
    })
    if (items.length > max) this.reject(name, `must be at most ${max}`)
    return items.slice(0, max)
  }

  filters(name = 'where'): Filter[] {
    return this.list(name, FILTERS_MAX, parseFilter, 'country,in,FR,DE')
  }

  range(otherwise: string): Range {
    const [last, from, to] = ['last', 'from', 'to'].map((name) => this.#params.get(name))
    if (!last && !from && !to) return { last: otherwise }
    const found = parseRange(last ?? null, from ?? null, to ?? null)
    if (!found) this.reject(last ? 'last' : 'from', 'must be a duration such as 7d, or two local times such as from=2026-11-01&to=2026-11-07')
    return found ?? { last: otherwise }
  }
}

const FILTERS_MAX = 50

/** Writes the parameters of a page. Defaults are omitted. */
export class ParamWriter {
  readonly params = new URLSearchParams()

  set(name: string, value: string | number, otherwise: string | number = ''): this {
    if (value !== otherwise) this.params.set(name, String(value))
    return this
  }

  append(name: string, values: readonly string[]): this {
    for (const value of values) this.params.append(name, value)
    return this
  }

  filters(filters: readonly Filter[], name = 'where'): this {
    return this.append(name, filters.map(formatFilter))
  }

  range(range: Range, otherwise: string): this {
    if ('last' in range) return this.set('last', range.last, otherwise)
    return this.set('from', range.from).set('to', range.to)
  }
}

/** Returns the URL of a page with a question. The selected game is kept. */
export function questionHref(path: string, question: URLSearchParams, current: URLSearchParams): string {
  const params = new URLSearchParams()
  const game = current.get('game')
  if (game) params.set('game', game)
  for (const [name, value] of question) params.append(name, value)
  // Commas separate the parts of conditions; they need no escape in a query.
  const text = params.toString().replaceAll('%2C', ',').replaceAll('%3B', ';')
  return text ? `${path}?${text}` : path
}
