/** The calls the dashboard makes, besides the stream. Same origin; the session is a cookie. */

export interface Game {
  id: string
  name: string
  public_key: string
  /** IANA name of the zone its days are cut in. */
  tz: string
}

export interface Me {
  role: string
  games: Game[]
  /** Goes along with every write, to show that it comes from this page. */
  csrf: string
}

/** The server answered, and the answer was no. */
export class Problem extends Error {
  readonly status: number
  /** What of the request is wrong, where it is one thing. */
  readonly field: string | undefined

  constructor(status: number, message: string, field?: string) {
    super(message)
    this.status = status
    this.field = field
  }
}

/** Who is signed in; a `Problem` of status 401 when nobody is. */
export async function me(): Promise<Me> {
  const answer = await fetch('/v1/me', { headers: { Accept: 'application/json' } })
  if (!answer.ok) throw await problem(answer)
  return (await answer.json()) as Me
}

export async function signOut(): Promise<void> {
  const answer = await fetch('/v1/sign-out', { method: 'POST' })
  if (!answer.ok && answer.status !== 401) throw await problem(answer)
}

/** The event of the first-steps card. */
export const HELLO = { event: 'hello', player: 'ann', value: 3 }

/** Sends one event the way a game does, with the public key. */
export async function sendHello(publicKey: string): Promise<void> {
  const answer = await fetch('/v1/events', {
    method: 'POST',
    headers: { Authorization: `Bearer ${publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(HELLO),
  })
  if (!answer.ok) throw await problem(answer)
}

/** The same in a shell. */
export function helloByCurl(origin: string, publicKey: string): string {
  return [
    `curl -X POST ${origin}/v1/events`,
    `-H 'Authorization: Bearer ${publicKey}'`,
    `-H 'Content-Type: application/json'`,
    `-d '${JSON.stringify(HELLO)}'`,
  ].join(' \\\n  ')
}

/** Where a pasted sign-in link or bare token leads; nothing when there is no token in it. */
export function signInPath(pasted: string): string | undefined {
  const text = pasted.trim()
  const token = /[?&]token=([^&#\s]+)/.exec(text)?.[1] ?? /^[\w.~-]+$/.exec(text)?.[0]
  return token && `/sign-in?token=${token}`
}

/** What a problem document says (RFC 9457). */
export async function problem(answer: Response): Promise<Problem> {
  interface Told {
    title?: string
    detail?: string
    field?: string
  }
  const told = (await answer.json().catch(() => ({}))) as Told
  return new Problem(answer.status, told.detail ?? told.title ?? `HTTP ${answer.status}`, told.field)
}
