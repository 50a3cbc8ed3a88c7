/** What players do after or before an event: the question, its URL and its answer. */
import { toConditions, type Filter } from '../../questions/conditions'
import { ParamReader, ParamWriter } from '../../questions/page-params'
import type { ParameterError } from '../../questions/question'
import { timeFields, type Range } from '../../questions/range'
import type { AsOf } from '../../stream/protocol'
import type { Table } from '../../table'

export const DEFAULT_RANGE = '7d'
const DEFAULT_DEPTH = 4
const DEFAULT_TOP = 8
const DEPTH_MAX = 10
const TOP_MAX = 20
export const EXCLUDED_MAX = 50
const OTHER = '(other)'

export const DIRECTIONS = [
  ['after', 'After'],
  ['before', 'Before'],
] as const
export const DEPTHS = [1, 2, 3, 4, 5, 6, 8, 10].map((depth) => [String(depth), String(depth)] as const)
export const TOPS = [3, 5, 8, 12, 20].map((top) => [String(top), String(top)] as const)

export interface Paths {
  /** Empty: the event that the page chooses. */
  event: string
  direction: 'after' | 'before'
  depth: number
  /** Events with a node of their own at each distance; the others share one. */
  top: number
  /** Events that paths ignore. */
  exclude: string[]
  where: Filter[]
  range: Range
}

export interface PathNode {
  /** 0 is the starting event. */
  distance: number
  event: string
  /** Paths through the node. */
  count: number
  players: number
}

export interface PathLink {
  from: number
  to: number
  count: number
  players: number
}

export interface PathsAnswer {
  as_of: AsOf
  nodes: PathNode[]
  /** From the earlier event to the later one. */
  links: PathLink[]
}

export function parsePaths(params: URLSearchParams): { paths: Paths; errors: ParameterError[] } {
  const reader = new ParamReader(params)
  const paths: Paths = {
    event: reader.text('event'),
    direction: reader.choice('direction', ['after', 'before'], 'after'),
    depth: reader.integer('depth', 1, DEPTH_MAX, DEFAULT_DEPTH),
    top: reader.integer('top', 1, TOP_MAX, DEFAULT_TOP),
    exclude: reader.list('exclude', EXCLUDED_MAX, (text) => text || undefined, 'ad_view'),
    where: reader.filters(),
    range: reader.range(DEFAULT_RANGE),
  }
  return { paths, errors: reader.errors }
}

export function formatPaths({ event, direction, depth, top, exclude, where, range }: Paths): URLSearchParams {
  const writer = new ParamWriter().set('event', event).set('direction', direction, 'after').set('depth', depth, DEFAULT_DEPTH)
  return writer.set('top', top, DEFAULT_TOP).append('exclude', exclude).filters(where).range(range, DEFAULT_RANGE).params
}

export function pathsBody({ direction, depth, top, exclude, where, range }: Paths, event: string, tz: string, nowMs: number): Record<string, unknown> {
  const ignored = exclude.filter((name) => name !== event)
  return {
    event,
    direction,
    depth,
    top,
    ...(ignored.length > 0 ? { exclude: ignored } : {}),
    ...(where.length > 0 ? { where: toConditions(where) } : {}),
    tz,
    ...timeFields(range, 'day', tz, nowMs),
  }
}

export const isOther = ({ event }: PathNode) => event === OTHER
export const nodeName = (node: PathNode) => (isOther(node) ? 'Other events' : node.event)

/** `2 after`, `Start`. */
export function distanceName(distance: number, direction: Paths['direction']): string {
  return distance === 0 ? 'Start' : `${distance}${distance === 1 ? 'st' : distance === 2 ? 'nd' : distance === 3 ? 'rd' : 'th'} event ${direction}`
}

/** The paths that start: those through the starting event. */
export function startCount({ nodes }: PathsAnswer): number {
  return nodes.filter(({ distance }) => distance === 0).reduce((sum, { count }) => sum + count, 0)
}

export interface PlacedNode extends PathNode {
  index: number
  /** Of all paths. */
  share: number
  column: number
  y: number
  height: number
}

export interface PlacedLink extends PathLink {
  /** The middle of the link at both ends, in pixels from the top. */
  y0: number
  y1: number
  width: number
}

export interface Layout {
  columns: number
  height: number
  nodes: PlacedNode[]
  links: PlacedLink[]
}

/** Height of all paths, in pixels. */
const FULL_PX = 320
/** A node has at least space for its label. */
const SLOT_PX = 36
const GAP_PX = 6

/** Places nodes in columns, from the earlier events to the later ones. Heights are in proportion to the paths. */
export function layoutOf(answer: PathsAnswer, direction: Paths['direction']): Layout {
  const total = startCount(answer)
  const scale = total > 0 ? FULL_PX / total : 0
  const last = Math.max(0, ...answer.nodes.map(({ distance }) => distance))
  const bottoms = Array.from({ length: last + 1 }, () => 0)
  const nodes = answer.nodes.map((node, index): PlacedNode => {
    const column = direction === 'after' ? node.distance : last - node.distance
    const y = bottoms[column] ?? 0
    const height = Math.max(2, node.count * scale)
    bottoms[column] = y + Math.max(height, SLOT_PX) + GAP_PX
    return { ...node, index, share: total > 0 ? node.count / total : 0, column, y, height }
  })
  // At both ends of a node, links are in the order of the nodes that they lead to, so that few cross.
  const used = { from: new Map<number, number>(), to: new Map<number, number>() }
  const take = (end: 'from' | 'to', node: number, width: number) => {
    const start = used[end].get(node) ?? 0
    used[end].set(node, start + width)
    return (nodes[node]?.y ?? 0) + start + width / 2
  }
  const widthOf = ({ count }: PathLink) => Math.max(1, count * scale)
  const ends = new Map<PathLink, { y0?: number; y1?: number }>(answer.links.map((link) => [link, {}]))
  for (const link of answer.links.toSorted((a, b) => a.from - b.from || a.to - b.to)) (ends.get(link) ?? {}).y0 = take('from', link.from, widthOf(link))
  for (const link of answer.links.toSorted((a, b) => a.to - b.to || a.from - b.from)) (ends.get(link) ?? {}).y1 = take('to', link.to, widthOf(link))
  const links = answer.links.map((link) => ({ ...link, y0: ends.get(link)?.y0 ?? 0, y1: ends.get(link)?.y1 ?? 0, width: widthOf(link) }))
  return { columns: last + 1, height: Math.max(...bottoms) - GAP_PX, nodes, links }
}

export function pathsTable({ nodes, links }: PathsAnswer): Table {
  return {
    columns: ['distance', 'from', 'to', 'paths', 'players'],
    rows: links.map(({ from, to, count, players }) => {
      const [earlier, later] = [nodes[from], nodes[to]]
      return [Math.max(earlier?.distance ?? 0, later?.distance ?? 0), earlier?.event ?? '', later?.event ?? '', count, players]
    }),
  }
}
