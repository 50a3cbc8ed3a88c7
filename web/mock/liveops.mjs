/** The routes of live-ops, flows and collectors in the mock, and their streams. */
import { Boards } from './boards.mjs'
import { Collectors } from './collectors.mjs'
import { Flows } from './flows.mjs'
import { Levels } from './levels.mjs'
import { Vars } from './vars.mjs'

/** Streams of variables, leaderboards and flows: every change is sent to the subscribers. */
export function createStreams({ vars, boards, flows }) {
  const map = new Map()
  let n = 0
  const stateOf = (params) => {
    if (params.flows) return flows.message()
    return params.vars
      ? { sub: 'vars', topic: 'vars', version: vars.version, vars: vars.valuesOf(params) }
      : { sub: 'board', topic: 'board', ...boards.page(params.board, { ...params, by: params.newest && 'newest' }) }
  }
  const send = (out, kind, params) => {
    const as_of = { time: new Date().toISOString(), position: `0/${++n}` }
    out.write(`event: ${kind}\nid: 1.${n}\ndata: ${JSON.stringify({ ...stateOf(params), as_of })}\n\n`)
  }
  const changed = (is) => map.forEach((params, out) => is(params) && send(out, 'change', params))
  vars.changed = () => changed((params) => params.vars)
  boards.changed = (table) => changed((params) => params.board === table)
  return {
    map,
    advanceFlows() {
      flows.advance()
      changed((params) => params.flows)
    },
    add(out, params) {
      out.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      send(out, 'snapshot', params)
      map.set(out, params)
      out.on('close', () => map.delete(out))
    },
  }
}

/** Creates the state of the mock game, except for events. */
export function createLiveops(empty) {
  const [vars, boards, levels] = [new Vars(empty), new Boards(empty), new Levels(empty)]
  return { vars, boards, levels, flows: new Flows(empty), collectors: new Collectors(empty) }
}

/** Method, path pattern, and a handler of the path parts, the body and the query. */
const ROUTES = [
  ['GET', /^\/v1\/vars$/, ({ vars }, _parts, _body, params) => vars.valuesOf(params)],
  ['PUT', /^\/v1\/vars$/, ({ vars }, _parts, body) => vars.putMany(body)],
  ['PUT', /^\/v1\/vars\/([^/]+)$/, ({ vars }, [name], body) => vars.put(name, body)],
  ['GET', /^\/v1\/vars:definitions$/, ({ vars }) => ({ version: vars.version, vars: vars.vars })],
  ['GET', /^\/v1\/vars:history$/, ({ vars }, _parts, _body, { n }) => ({ changes: vars.changes.slice(0, n ?? 20) })],
  ['POST', /^\/v1\/vars:rollback$/, ({ vars }, _parts, body) => vars.rollBack(body)],
  ['GET', /^\/v1\/boards$/, ({ boards }) => boards.all()],
  ['GET', /^\/v1\/boards\/([^/]+)$/, ({ boards }, [table]) => boards.one(table)],
  ['PUT', /^\/v1\/boards\/([^/]+)$/, ({ boards }, [table], body) => boards.put(table, body)],
  ['POST', /^\/v1\/boards\/([^/]+)\/reset$/, ({ boards }, [table]) => boards.reset(table)],
  ['GET', /^\/v1\/boards\/([^/]+)\/scores$/, ({ boards }, [table], _body, params) => boards.page(table, params)],
  ['POST', /^\/v1\/boards\/([^/]+)\/scores$/, ({ boards }, [table], body) => boards.submit(table, body)],
  ['GET', /^\/v1\/boards\/([^/]+)\/quarantine$/, ({ boards }, [table]) => boards.quarantine(table)],
  ['POST', /^\/v1\/boards\/([^/]+)\/quarantine\/([^/]+)$/, ({ boards }, [table, id], body) => boards.decide(table, id, body)],
  ['POST', /^\/v1\/session$/, (_liveops, _parts, { player }) => ({ session: `s-${player}`, key: 'a2V5', player })],
  ['PUT', /^\/v1\/players\/([^/]+)\/ban$/, ({ boards }, [player], body) => boards.ban(player, body?.reason)],
  ['DELETE', /^\/v1\/players\/([^/]+)\/ban$/, ({ boards }, [player]) => boards.lift(player)],
  ['GET', /^\/v1\/levels$/, ({ levels }, _parts, _body, params) => levels.list(params)],
  ['GET', /^\/v1\/levels\/([^/]+)$/, ({ levels }, [id]) => levels.one(id)],
  ['PATCH', /^\/v1\/levels\/([^/]+)$/, ({ levels }, [id], body) => levels.set(id, body)],
  ['POST', /^\/v1\/levels$/, ({ levels }, _parts, body) => levels.save(body)],
  ['POST', /^\/v1\/levels\/([^/]+)\/rating$/, ({ levels }, [id], body) => levels.rate(id, body)],
  ['POST', /^\/v1\/levels\/([^/]+)\/flags$/, ({ levels }, [id], body) => levels.flag(id, body)],
  ['GET', /^\/v1\/flows$/, ({ flows }, _parts, _body, params) => flows.list(params)],
  ['GET', /^\/v1\/flows\/ended$/, ({ flows }) => flows.listEnded()],
  ['GET', /^\/v1\/flows\/([^/]+)$/, ({ flows }, [id]) => flows.one(id)],
  ['GET', /^\/v1\/query$/, ({ flows }, _parts, _body, params) => flows.query(params)],
  ['GET', /^\/v1\/collectors$/, ({ collectors }) => collectors.list()],
  ['GET', /^\/v1\/moderation$/, ({ levels }) => levels.queue()],
  ['POST', /^\/v1\/moderation\/([^/]+)$/, ({ levels }, [id], body) => levels.decide(id, body)],
]

/** Returns the handler of a request, a function from its body to the response; `undefined` if there is no such route. */
export function routeOf(liveops, method, url) {
  const path = decodeURIComponent(url.pathname)
  const route = ROUTES.find(([verb, pattern]) => verb === method && pattern.test(path))
  if (!route) return undefined
  const [, pattern, handler] = route
  return (body) => handler(liveops, pattern.exec(path).slice(1), body, Object.fromEntries(url.searchParams))
}
