/** The variables of a game and their history, kept current. */
import type { Client } from '../../client'
import { Loaded } from '../../loaded.svelte'
import { Watch, type Status } from '../../stream/watch'
import type { Definitions, History } from './definition'

/**
 * The stream tells what changes for whoever watches. A change that is for others alone is seen by its version, which is
 * asked for this often.
 */
const VERSION_EVERY_MS = 5_000
const CHANGES = 100

export class Vars {
  readonly definitions: Loaded<Definitions>
  readonly history: Loaded<History>
  status = $state<Status>('connecting')
  readonly #client: Client
  readonly #watch: Watch<unknown>
  readonly #timer: ReturnType<typeof setInterval>

  constructor(client: Client, stillSignedIn: () => Promise<boolean>) {
    this.#client = client
    this.definitions = new Loaded((signal) => client.getExact('/v1/vars:definitions', {}, signal))
    this.history = new Loaded((signal) => client.getExact('/v1/vars:history', { n: CHANGES }, signal))
    this.#watch = new Watch<unknown>(client.url('/v1/watch', { vars: 1 }), {
      message: (kind) => kind !== 'snapshot' && void this.reload(),
      status: (status) => (this.status = status),
      refused: stillSignedIn,
    })
    this.#timer = setInterval(() => void this.#compareVersion(), VERSION_EVERY_MS)
  }

  get version(): number {
    return this.definitions.value?.version ?? 0
  }

  async reload(): Promise<void> {
    await Promise.all([this.definitions.reload(), this.history.reload()])
  }

  close(): void {
    this.#watch.close()
    clearInterval(this.#timer)
    this.definitions.close()
    this.history.close()
  }

  async #compareVersion(): Promise<void> {
    if (document.visibilityState !== 'visible' || !this.definitions.value) return
    const answer = await this.#client.ask('/v1/vars').catch(() => undefined)
    const version = answer?.headers.get('Playmeter-Vars-Version')
    if (version && Number(version) !== this.version) await this.reload()
  }
}
