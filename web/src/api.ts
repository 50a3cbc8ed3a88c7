/** Requests that belong to no game: the session and the sample event. Same origin; the session is a cookie. */

export interface Game {
  id: string
  name: string
  public_key: string
  /** IANA time zone; the game's days start at midnight in this zone. */
  tz: string
  archived?: boolean
}

export interface Me {
  role: string
  games: Game[]
  /** CSRF token, sent with every write. */
  csrf: string
}

/** An error response of the server (RFC 9457 problem details). */
export class ProblemError extends Error {
  readonly status: number
  /** The request field that caused the error, if the server names one. */
  readonly field: string | undefined

  constructor(status: number, message: string, field?: string) {
    super(message)
    this.status = status
    this.field = field
  }
}

/** Returns the signed-in user. Throws a `ProblemError` with status 401 if there is no session. */
export async function getMe(): Promise<Me> {
  const response = await fetch('/v1/me', { headers: { Accept: 'application/json' } })
  if (!response.ok) throw await problemFrom(response)
  return (await response.json()) as Me
}

export async function signOut(): Promise<void> {
  const response = await fetch('/v1/sign-out', { method: 'POST' })
  if (!response.ok && response.status !== 401) throw await problemFrom(response)
}

/** The event that the setup guide sends. */
export const SAMPLE_EVENT = { event: 'hello', player: 'ann', value: 3 }

/** Sends the sample event with the public key, as a game does. */
export async function sendSampleEvent(publicKey: string): Promise<void> {
  const response = await fetch('/v1/events', {
    method: 'POST',
    headers: { Authorization: `Bearer ${publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(SAMPLE_EVENT),
  })
  if (!response.ok) throw await problemFrom(response)
}

/** Returns the curl command that sends the sample event. */
export function sampleEventCurl(origin: string, publicKey: string): string {
  return [
    `curl -X POST ${origin}/v1/events`,
    `-H 'Authorization: Bearer ${publicKey}'`,
    `-H 'Content-Type: application/json'`,
    `-d '${JSON.stringify(SAMPLE_EVENT)}'`,
  ].join(' \\\n  ')
}

/** Returns the sign-in path for a pasted link or token; `undefined` if the text contains no token. */
export function signInPath(pasted: string): string | undefined {
  const text = pasted.trim()
  const token = /[?&]token=([^&#\s]+)/.exec(text)?.[1] ?? /^[\w.~-]+$/.exec(text)?.[0]
  return token && `/sign-in?token=${token}`
}

/** Reads the problem details of an error response. */
export async function problemFrom(response: Response): Promise<ProblemError> {
  interface ProblemDetails {
    title?: string
    detail?: string
    field?: string
  }
  const { title, detail, field } = (await response.json().catch(() => ({}))) as ProblemDetails
  return new ProblemError(response.status, detail ?? title ?? `HTTP ${response.status}`, field)
}
