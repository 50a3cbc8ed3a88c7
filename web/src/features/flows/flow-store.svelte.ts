/** The stream of active flows, for components to read. */
import type { Client } from '../../client'
import { StreamConnection, type Status } from '../../stream/connection'
import type { FlowsMessage } from './flow'

export class FlowStore {
  /** The last message; absent until the first one. */
  latest = $state.raw<FlowsMessage>()
  status = $state<Status>('connecting')
  readonly #connection: StreamConnection<FlowsMessage>

  constructor(client: Client, checkSignedIn: () => Promise<boolean>) {
    this.#connection = new StreamConnection<FlowsMessage>(client.url('/v1/watch', { flows: 1 }), {
      message: (_kind, message) => (this.latest = message),
      status: (status) => (this.status = status),
      rejected: checkSignedIn,
    })
  }

  close(): void {
    this.#connection.close()
  }
}
