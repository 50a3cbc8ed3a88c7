/** Queries in SQL in the mock: it knows a few of them by their words and answers with generated rows. */
import { ProblemError } from './problem.mjs'

const DAY_MS = 86_400_000
const COLUMNS = ['ts', 'ts_utc', 'event', 'id', 'player', 'session', 'value', 'country', 'level', 'props', 'props.price']

/** Returns the response to a query. Throws a `ProblemError` as the server answers a wrong one. */
export function answerSql({ sql, rows_max: rowsMax = 10_000 }) {
  const unknown = /from\s+(?!events|sessions|players|scores|range)(\w+)/i.exec(sql)?.[1]
  if (unknown) throw new ProblemError(400, `Catalog Error: Table with name ${unknown} does not exist!`, 'sql')
  const { columns, rows } = rowsOf(sql.toLowerCase())
  return { columns, rows: rows.slice(0, rowsMax), truncated: rows.length > rowsMax }
}

function rowsOf(sql) {
  const column = (name, type) => ({ name, type })
  if (sql.startsWith('describe')) return { columns: [column('column_name', 'VARCHAR')], rows: COLUMNS.map((name) => [name]) }
  if (sql.includes('range')) {
    return { columns: [column('n', 'BIGINT'), column('text', 'VARCHAR')], rows: Array.from({ length: 20_000 }, (_, n) => [n, `<b>row ${n}</b>`]) }
  }
  if (sql.includes('as day')) {
    const start = Math.floor(Date.now() / DAY_MS) - 29
    const rows = Array.from({ length: 30 }, (_, i) => [new Date((start + i) * DAY_MS).toISOString().slice(0, 19), 900 + 40 * i + (i % 7) * 55, 120 + i * 3])
    return { columns: [column('day', 'TIMESTAMP'), column('events', 'BIGINT'), column('players', 'BIGINT')], rows }
  }
  if (sql.includes('where false')) return { columns: [column('event', 'VARCHAR')], rows: [] }
  return { columns: [column('event', 'VARCHAR'), column('n', 'BIGINT')], rows: [['start', 812], ['win', 530], ['fail', 214], [null, 3]] }
}
