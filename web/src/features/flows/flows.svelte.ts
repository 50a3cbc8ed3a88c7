/** What the stream says of the flows that run, for components to read. */
import type { Client } from '../../client'
import { Watch, type Status } from '../../stream/watch'
import type { FlowsMessage } from './flow'

export class Flows {
  /** Absent until the first message. */
  said = $state.raw<FlowsMessage>()
  status = $state<Status>('connecting')
  readonly #watch: Watch<FlowsMessage>

  constructor(client: Client, stillSignedIn: () => Promise<boolean>) {
    this.#watch = new Watch<FlowsMessage>(client.url('/v1/watch', { flows: 1 }), {
      message: (_kind, message) => (this.said = message),
      status: (status) => (this.status = status),
      refused: stillSignedIn,
    })
  }

  close(): void {
    this.#watch.close()
  }
}
