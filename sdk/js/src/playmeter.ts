/**
 * The client of a game.
 *
 * `track` never blocks and never throws. An event is stored before it is sent, and is sent until the server has
 * received it.
 */
import { Achievements } from './achievements.js'
import { Api } from './api.js'
import { Board } from './boards.js'
import { Feed } from './feed.js'
import { Http } from './http.js'
import { Levels } from './levels.js'
import { Queue } from './queue.js'
import { Signer } from './signer.js'
import { readStorage, writeStorage } from './storage.js'
import { subscribe } from './stream.js'
import type { Details, Options, Variables, Watched } from './types.js'
import { uuid } from './uuid.js'
import { GameVars } from './vars.js'

const FIRST_PING_MS = 60_000
const PING_MS = 30_000
/** The server's limit: an event after a longer pause starts a new session. */
const SESSION_TIMEOUT_MS = 30 * 60_000

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
  /** Removes all event listeners of the page. */
  readonly #closing = new AbortController()
  readonly #sessions: boolean
  #session = ''
  #lastEventMs = 0
  #ping: ReturnType<typeof setTimeout> | undefined

  constructor(options: Options<V>) {
    const { url, key, name, player, defaults, sha256 } = options
    const page = globalThis.document
    const storageKey = 'playmeter:' + url + ':' + key
    this.#options = options
    this.#sessions = options.sessions ?? !!page
    this.#http = new Http(url, key)
    const identity = { player: player ?? storedPlayer(storageKey + ':player'), name }
    this.#signer = new Signer(this.#http, identity, sha256)
    this.#queue = new Queue(this.#http, storageKey, options)
    this.#api = new Api(this.#http, this.#signer)
    this.vars = new GameVars(this.#http, storageKey + ':vars', () => this.#viewer(), defaults ?? ({} as V))
    this.levels = new Levels(this.#api)
    this.achievements = new Achievements(this.#api)
    this.feed = new Feed(this.#api)
    if (page) this.#listen(page)
    // Events that an earlier page left in the queue are sent at once.
    this.#queue.schedule(0)
    if (this.#sessions) this.#start()
  }

  get player(): string {
    return this.#signer.identity.player
  }

  /** Queues an event. Its id is assigned here, so the server counts it once however often it is sent. */
  track(name: string, details: Details = {}): void {
    const { version, platform, source, country } = this.#options
    const now = Date.now()
    if (this.#sessions && now - this.#lastEventMs > SESSION_TIMEOUT_MS) this.#start()
    this.#lastEventMs = now
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

  /** Sets the player of all later events and the name shown on leaderboards. Earlier events are linked to the player. */
  identify(player: string, name = this.#signer.identity.name): void {
    const before = this.player
    this.#signer.identity = { player, name }
    this.#signer.reset()
    if (player !== before) {
      this.track('$identify', { props: { anonymous: before } })
      this.vars.resubscribe()
    }
  }

  /** Sends the queued events. Throws if that fails; the events stay queued and are sent later. */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /** Returns a leaderboard. It is created by its first score. */
  board(table: string): Board {
    return new Board(this.#api, table)
  }

  /** Subscribes to changes, in pages only. Returns a function that unsubscribes. */
  watch(what: Watched, onMessage: (kind: string, data: any) => void): () => void {
    return subscribe(() => this.#http.url('/v1/watch', what), onMessage)
  }

  /** Ends the session, stops all timers and sends the queued events. */
  close(): Promise<void> {
    this.#end()
    this.#closing.abort()
    this.vars.close()
    return this.flush()
  }

  /** The properties by which the server evaluates variables. */
  #viewer(): object {
    const { platform, version, segment, country } = this.#options
    // For a public key the server determines the country itself and ignores this one.
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
    this.#lastEventMs = Date.now()
    this.track('$session_start')
    this.#schedulePing(FIRST_PING_MS)
  }

  #schedulePing(ms: number): void {
    clearTimeout(this.#ping)
    this.#ping = setTimeout(() => {
      if (!globalThis.document?.hidden) this.track('$ping')
      this.#schedulePing(PING_MS)
    }, ms)
    ;(this.#ping as { unref?: () => void }).unref?.()
  }

  #end(): void {
    clearTimeout(this.#ping)
    if (this.#session) this.track('$session_end')
    this.#session = ''
    // The next event starts a new session.
    this.#lastEventMs = 0
  }

  #listen(page: Document): void {
    const { signal } = this.#closing
    const onVisibilityChange = () => (page.hidden ? this.#queue.sendBeacons() : this.#queue.wake())
    page.addEventListener('visibilitychange', onVisibilityChange, { signal })
    addEventListener('online', () => this.#queue.wake(), { signal })
    addEventListener(
      'pagehide',
      ({ persisted }) => {
        // A persisted page may be restored later: its session continues.
        if (!persisted) this.#end()
        this.#queue.sendBeacons()
      },
      { signal },
    )
  }
}

function storedPlayer(storageKey: string): string {
  const player = readStorage(storageKey) ?? uuid()
  writeStorage(storageKey, player)
  return player
}
