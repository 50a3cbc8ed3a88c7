/** Links to the Explore page. */
import { formatQuestion, newSeries, parseQuestion, type Question } from '../../questions/question'

/** Returns the URL of a question; the game of the current URL is kept. */
export function exploreHref(question: Question, gameTz: string, current: URLSearchParams): string {
  const params = formatQuestion(question, gameTz)
  const game = current.get('game')
  const query = new URLSearchParams(game ? { game } : {})
  for (const [name, value] of params) query.append(name, value)
  const text = readable(query)
  return text ? `/explore?${text}` : '/explore'
}

/** Commas and equals signs stay readable in links that people share. */
function readable(query: URLSearchParams): string {
  return query.toString().replaceAll('%2C', ',').replace(/(?<==[^&]*)%3D/g, '=').replaceAll('%3A', ':')
}

/** Returns the link to a level's win rate over the last seven days. */
export function levelWinRateHref(level: string, gameTz: string, current: URLSearchParams): string {
  const { question } = parseQuestion(new URLSearchParams(), gameTz)
  const where = [[{ property: 'level', op: '=' as const, values: [level] }]]
  return exploreHref({ ...question, series: [newSeries('level_win_rate')], where }, gameTz, current)
}
