/** The routes of live-ops, flows and collectors in the mock, and the streams about them. */
import { Boards } from './boards.mjs'
import { Collectors } from './collectors.mjs'
import { Flows } from './flows.mjs'
import { Levels } from './levels.mjs'
import { Vars } from './vars.mjs'

/** Streams about variables, boards and flows: told whenever something is another. */
export function follow({ vars, boards, flows }) {
  const map = new Map()
  let n = 0
  const stateOf = (asked) => {
    if (asked.flows) return flows.message()
    return asked.vars
      ? { sub: 'vars', topic: 'vars', version: vars.version, vars: vars.valuesOf(asked) }
      : { sub: 'board', topic: 'board', ...boards.leaf(asked.board, { ...asked, by: asked.newest && 'newest' }) }
  }
  const say = (out, kind, asked) => {
    const as_of = { time: new Date().toISOString(), position: `0/${++n}` }
    out.write(`event: ${kind}\nid: 1.${n}\ndata: ${JSON.stringify({ ...stateOf(asked), as_of })}\n\n`)
  }
  const changed = (is) => map.forEach((asked, out) => is(asked) && say(out, 'change', asked))
  vars.changed = () => changed((asked) => asked.vars)
  boards.changed = (table) => changed((asked) => asked.board === table)
  return {
    map,
    flowsGoOn() {
      flows.play()
      changed((asked) => asked.flows)
    },
    add(out, asked) {
      out.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      say(out, 'snapshot', asked)
      map.set(out, asked)
      out.on('close', () => map.delete(out))
    },
  }
}

/** What there is beside events in the invented game. */
export function invented(empty) {
  const [vars, boards, levels] = [new Vars(empty), new Boards(empty), new Levels(empty)]
  return { vars, boards, levels, flows: new Flows(empty), collectors: new Collectors(empty) }
}

/** Method and path, and what each does with the parts of its path, its body and its query. */
const ROUTES = [
  ['GET', /^\/v1\/vars$/, ({ vars }, _parts, _body, asked) => vars.valuesOf(asked)],
  ['PUT', /^\/v1\/vars$/, ({ vars }, _parts, body) => vars.putMany(body)],
  ['PUT', /^\/v1\/vars\/([^/]+)$/, ({ vars }, [name], body) => vars.put(name, body)],
  ['GET', /^\/v1\/vars:definitions$/, ({ vars }) => ({ version: vars.version, vars: vars.vars })],
  ['GET', /^\/v1\/vars:history$/, ({ vars }, _parts, _body, { n }) => ({ changes: vars.changes.slice(0, n ?? 20) })],
  ['POST', /^\/v1\/vars:rollback$/, ({ vars }, _parts, body) => vars.rollBack(body)],
  ['GET', /^\/v1\/boards$/, ({ boards }) => boards.all()],
  ['GET', /^\/v1\/boards\/([^/]+)$/, ({ boards }, [table]) => boards.one(table)],
  ['PUT', /^\/v1\/boards\/([^/]+)$/, ({ boards }, [table], body) => boards.put(table, body)],
  ['POST', /^\/v1\/boards\/([^/]+)\/reset$/, ({ boards }, [table]) => boards.reset(table)],
  ['GET', /^\/v1\/boards\/([^/]+)\/scores$/, ({ boards }, [table], _body, asked) => boards.leaf(table, asked)],
  ['POST', /^\/v1\/boards\/([^/]+)\/scores$/, ({ boards }, [table], body) => boards.submit(table, body)],
  ['GET', /^\/v1\/boards\/([^/]+)\/quarantine$/, ({ boards }, [table]) => boards.quarantine(table)],
  ['POST', /^\/v1\/boards\/([^/]+)\/quarantine\/([^/]+)$/, ({ boards }, [table, id], body) => boards.decide(table, id, body)],
  ['POST', /^\/v1\/session$/, (_liveops, _parts, { player }) => ({ session: `s-${player}`, key: 'a2V5', player })],
  ['PUT', /^\/v1\/players\/([^/]+)\/ban$/, ({ boards }, [player], body) => boards.ban(player, body?.reason)],
  ['DELETE', /^\/v1\/players\/([^/]+)\/ban$/, ({ boards }, [player]) => boards.lift(player)],
  ['GET', /^\/v1\/levels$/, ({ levels }, _parts, _body, asked) => levels.list(asked)],
  ['GET', /^\/v1\/levels\/([^/]+)$/, ({ levels }, [id]) => levels.one(id)],
  ['PATCH', /^\/v1\/levels\/([^/]+)$/, ({ levels }, [id], body) => levels.set(id, body)],
  ['POST', /^\/v1\/levels$/, ({ levels }, _parts, body) => levels.save(body)],
  ['POST', /^\/v1\/levels\/([^/]+)\/rating$/, ({ levels }, [id], body) => levels.rate(id, body)],
  ['POST', /^\/v1\/levels\/([^/]+)\/flags$/, ({ levels }, [id], body) => levels.flag(id, body)],
  ['GET', /^\/v1\/flows$/, ({ flows }, _parts, _body, asked) => flows.list(asked)],
  ['GET', /^\/v1\/flows\/ended$/, ({ flows }) => flows.ended()],
  ['GET', /^\/v1\/flows\/([^/]+)$/, ({ flows }, [id]) => flows.one(id)],
  ['GET', /^\/v1\/query$/, ({ flows }, _parts, _body, asked) => flows.query(asked)],
  ['GET', /^\/v1\/collectors$/, ({ collectors }) => collectors.list()],
  ['GET', /^\/v1\/moderation$/, ({ levels }) => levels.queue()],
  ['POST', /^\/v1\/moderation\/([^/]+)$/, ({ levels }, [id], body) => levels.decide(id, body)],
]

/** What a request means, as a function from its body to the answer; nothing where there is no such route. */
export function routeOf(liveops, method, url) {
  const path = decodeURIComponent(url.pathname)
  const route = ROUTES.find(([verb, pattern]) => verb === method && pattern.test(path))
  if (!route) return undefined
  const [, pattern, answer] = route
  return (body) => answer(liveops, pattern.exec(path).slice(1), body, Object.fromEntries(url.searchParams))
}
