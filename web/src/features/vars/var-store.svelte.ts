/** The variables of a game and their history, kept current. */
import type { Client } from '../../client'
import { Resource } from '../../resource.svelte'
import { StreamConnection, type Status } from '../../stream/connection'
import type { Definitions, History } from './definition'

/**
 * The stream evaluates variables for one viewer and is silent if a change affects only other players. The version
 * reveals such changes and is polled at this interval.
 */
const VERSION_POLL_MS = 5_000
const CHANGES_MAX = 100

export class VarStore {
  readonly definitions: Resource<Definitions>
  readonly history: Resource<History>
  status = $state<Status>('connecting')
  readonly #client: Client
  readonly #connection: StreamConnection<unknown>
  readonly #timer: ReturnType<typeof setInterval>

  constructor(client: Client, checkSignedIn: () => Promise<boolean>) {
    this.#client = client
    this.definitions = new Resource((signal) => client.getExactNumbers('/v1/vars:definitions', {}, signal))
    this.history = new Resource((signal) => client.getExactNumbers('/v1/vars:history', { n: CHANGES_MAX }, signal))
    this.#connection = new StreamConnection<unknown>(client.url('/v1/watch', { vars: 1 }), {
      message: (kind) => kind !== 'snapshot' && void this.reload(),
      status: (status) => (this.status = status),
      rejected: checkSignedIn,
    })
    this.#timer = setInterval(() => void this.#pollVersion(), VERSION_POLL_MS)
  }

  get version(): number {
    return this.definitions.value?.version ?? 0
  }

  async reload(): Promise<void> {
    await Promise.all([this.definitions.reload(), this.history.reload()])
  }

  close(): void {
    this.#connection.close()
    clearInterval(this.#timer)
    this.definitions.close()
    this.history.close()
  }

  async #pollVersion(): Promise<void> {
    if (document.visibilityState !== 'visible' || !this.definitions.value) return
    const response = await this.#client.request('/v1/vars').catch(() => undefined)
    const version = response?.headers.get('Playmeter-Vars-Version')
    if (version && Number(version) !== this.version) await this.reload()
  }
}
