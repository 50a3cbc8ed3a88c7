/** Receipts of erasures and exports, and what they say. */

import { removeVisits } from '../../recent'
import { load, store } from '../../storage'
import { removeQueries } from '../sql/recent-queries'

const RECEIPTS_MAX = 20

export interface StoredReceipt {
  receipt: string
  /** Time of the request, RFC 3339. The player is not stored: nothing may name an erased player. */
  at: string
}

const storageName = (game: string) => `receipts.${game}`

/** Returns the receipts of erasures that were made in this browser, the last one first. */
export function storedReceipts(game: string): StoredReceipt[] {
  const stored = load(storageName(game))
  return Array.isArray(stored) ? stored.filter((it) => typeof it?.receipt === 'string' && !Number.isNaN(Date.parse(it?.at))) : []
}

/** Stores the receipt of an erasure, and removes what this browser stores about the player. */
export function recordErasure(game: string, player: string, receipt: StoredReceipt): void {
  store(storageName(game), [receipt, ...storedReceipts(game)].slice(0, RECEIPTS_MAX))
  removeVisits(player)
  removeQueries(player)
}

export interface Receipt {
  receipt: string
  kind: 'erasure' | 'export'
  asked_at: string
  /** Of an erasure: the time from which no answer contains the data. */
  invisible_at?: string | null
  /** Of an erasure: the time until which the data is removed from every file. */
  gone_by?: string | null
  done_at?: string | null
  state?: string | null
  events?: number | null
  commands?: number | null
}

export interface Step {
  name: string
  isDone: boolean
  /** RFC 3339. */
  at: string | undefined
}

/** The steps of an erasure: requested, hidden, removed. */
export function stepsOf({ asked_at, invisible_at, gone_by, done_at }: Receipt): Step[] {
  return [
    { name: 'Requested', isDone: true, at: asked_at },
    { name: 'Hidden from every answer', isDone: Boolean(invisible_at), at: invisible_at ?? undefined },
    { name: done_at ? 'Removed from every file' : 'Removed from every file, at the latest', isDone: Boolean(done_at), at: done_at ?? gone_by ?? undefined },
  ]
}
