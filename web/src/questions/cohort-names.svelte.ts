/** The names of the game's cohorts, which filters offer. */
import type { Client } from '../client'

class CohortNames {
  list = $state.raw<string[]>([])

  constructor(client: Client) {
    // Without the names, filters only do not offer cohorts.
    client.get<{ cohorts: { name: string }[] }>('/v1/cohorts').then(
      ({ body }) => (this.list = body.cohorts.map(({ name }) => name)),
      () => undefined,
    )
  }
}

/** Returns the names, read again for each page: cohorts are created while the dashboard is open. */
export function cohortNames(client: Client): { readonly list: string[] } {
  return new CohortNames(client)
}
