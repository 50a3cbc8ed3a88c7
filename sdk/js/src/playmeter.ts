/**
 * A game's line to its Playmeter server.
 *
 * `track` never waits and never throws; what it is given is on disk before it is sent, and is sent until
 * the server has it.
 */
import { Achievements } from './achievements.js'
import { Api } from './api.js'
import { Board } from './boards.js'
import { Feed } from './feed.js'
import { Http } from './http.js'
import { Levels } from './levels.js'
import { Queue } from './queue.js'
import { recall, remember } from './remember.js'
import { Signer } from './signer.js'
import { hear } from './stream.js'
import type { Details, Options, Variables, Watched } from './types.js'
import { uuid } from './uuid.js'
import { GameVars } from './vars.js'

const FIRST_PING_MS = 60_000
const PING_MS = 30_000
/** The server's own rule: after so long a silence it is another session. */
const SILENCE_MS = 30 * 60_000

export class Playmeter<V extends Variables = Variables> {
  readonly vars: GameVars<V>
  readonly levels: Levels
  readonly achievements: Achievements
  readonly feed: Feed
  readonly #options: Options<V>
  readonly #http: Http
  readonly #api: Api
  readonly #queue: Queue
  readonly #signer: Signer
  /** Ends everything that listens to the page. */
  readonly #closing = new AbortController()
  readonly #sessions: boolean
  #session = ''
  #seenMs = 0
  #ping: ReturnType<typeof setTimeout> | undefined

  constructor(options: Options<V>) {
    const { url, key, name, player, defaults, sha256 } = options
    const page = globalThis.document
    const place = 'playmeter:' + url + ':' + key
    this.#options = options
    this.#sessions = options.sessions ?? !!page
    this.#http = new Http(url, key)
    const who = { player: player ?? remembered(place + ':player'), name }
    this.#signer = new Signer(this.#http, who, sha256)
    this.#queue = new Queue(this.#http, place, options)
    this.#api = new Api(this.#http, this.#signer)
    this.vars = new GameVars(this.#http, place + ':vars', () => this.#about(), defaults ?? ({} as V))
    this.levels = new Levels(this.#api)
    this.achievements = new Achievements(this.#api)
    this.feed = new Feed(this.#api)
    if (page) this.#follow(page)
    // What an earlier page left behind goes first.
    this.#queue.later(0)
    if (this.#sessions) this.#start()
  }

  get player(): string {
    return this.#signer.who.player
  }

  /** Takes an event. It has an id from here on, so the server counts it once however often it is sent. */
  track(name: string, details: Details = {}): void {
    const { version, platform, source, country } = this.#options
    const now = Date.now()
    if (this.#sessions && now - this.#seenMs > SILENCE_MS) this.#start()
    this.#seenMs = now
    const id = uuid(now)
    const session = this.#session || undefined
    const event = {
      event: name,
      id,
      ts: now,
      player: this.player,
      session,
      version,
      platform,
      source,
      country,
      ...details,
    }
    this.#queue.add(id, event)
  }

  /** The player is known now: the name on boards, the player of all later events. */
  identify(player: string, name = this.#signer.who.name): void {
    const before = this.player
    this.#signer.who = { player, name }
    this.#signer.forget()
    if (player !== before) {
      this.track('$identify', { props: { anonymous: before } })
      this.vars.renew()
    }
  }

  /** Sends what is waiting. Throws when it could not; what waits is still sent later. */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /** A leaderboard; it exists from the first score on. */
  board(table: string): Board {
    return new Board(this.#api, table)
  }

  /** Hears of every change of what is watched, in pages; the function it gives back ends that. */
  watch(what: Watched, heard: (kind: string, data: any) => void): () => void {
    return hear(() => this.#http.url('/v1/watch', what), heard)
  }

  /** The end of the game: ends the session, stops all timers, and sends what is waiting. */
  close(): Promise<void> {
    this.#end()
    this.#closing.abort()
    this.vars.close()
    return this.flush()
  }

  /** What chooses the values of variables. */
  #about(): object {
    const { platform, version, segment, country } = this.#options
    // A public key's country is looked up by the server and not taken from the client.
    return {
      player: this.player,
      platform,
      version,
      segment,
      country: this.#http.secret ? country : undefined,
    }
  }

  #start(): void {
    this.#session = uuid()
    this.#seenMs = Date.now()
    this.track('$session_start')
    this.#beat(FIRST_PING_MS)
  }

  #beat(ms: number): void {
    clearTimeout(this.#ping)
    this.#ping = setTimeout(() => {
      if (!globalThis.document?.hidden) this.track('$ping')
      this.#beat(PING_MS)
    }, ms)
    ;(this.#ping as { unref?: () => void }).unref?.()
  }

  #end(): void {
    clearTimeout(this.#ping)
    if (this.#session) this.track('$session_end')
    this.#session = ''
    // Whatever comes after this is another session.
    this.#seenMs = 0
  }

  #follow(page: Document): void {
    const { signal } = this.#closing
    const seen = () => (page.hidden ? this.#queue.leave() : this.#queue.wake())
    page.addEventListener('visibilitychange', seen, { signal })
    addEventListener('online', () => this.#queue.wake(), { signal })
    addEventListener(
      'pagehide',
      ({ persisted }) => {
        // A page that is kept may come back as if nothing had been.
        if (!persisted) this.#end()
        this.#queue.leave()
      },
      { signal },
    )
  }
}

function remembered(place: string): string {
  const player = recall(place) ?? uuid()
  remember(place, player)
  return player
}
