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
}

/** The server answered, and the answer was no. */
export class Problem extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
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

async function problem(answer: Response): Promise<Problem> {
  const body = (await answer.json().catch(() => ({}))) as { title?: string; detail?: string }
  return new Problem(answer.status, body.detail ?? body.title ?? `HTTP ${answer.status}`)
}
