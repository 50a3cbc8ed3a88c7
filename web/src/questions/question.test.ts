import { expect, test } from 'vitest'
import { formatQuestion, parseQuestion, type Question, withoutSeries } from './question'

const parse = (query: string) => parseQuestion(new URLSearchParams(query), 'Europe/Paris')
const format = (question: Question) => formatQuestion(question, 'Europe/Paris').toString()

test('without parameters the question is the active players of the last seven days', () => {
  const { question, errors } = parse('game=demo')
  expect(errors).toEqual([])
  expect(question.series.map(({ metric }) => metric)).toEqual(['players'])
  expect([question.range, question.tz, question.view]).toEqual([{ last: '7d' }, 'Europe/Paris', 'line'])
  expect(format(question)).toBe('')
})

test('a question is the same after a round trip through the URL', () => {
  const queries = [
    'metric=level_win_rate&where=level,=,3&by=country&compare=previous',
    'metric=purchase&measure=sum&property=props.price&where=country,in,FR,DE&where=platform,=,web|props.vip,=,true&last=30d',
    'metric=start&a.where=level,=,1&b.metric=win&b.measure=uniques&b.where=level,=,2&formula=B / A&view=area&scale=log&hide=A&hide=B',
    'metric=win&by=country&by=props.item&top=20&step=week&from=2026-10-01&to=2026-11-15T09:30&tz=Asia/Tokyo&view=table',
  ]
  for (const query of queries) {
    const { question, errors } = parse(query)
    expect(errors).toEqual([])
    const formatted = format(question)
    expect(parse(formatted)).toEqual({ question, errors: [] })
    expect([...new URLSearchParams(formatted)].sort()).toEqual([...new URLSearchParams(query)].sort())
  }
})

test('each unusable parameter is named and replaced by its default', () => {
  const { question, errors } = parse(
    'measure=mode&where=country&by=a&by=b&by=c&top=0&step=second&last=soon&compare=never&tz=Mars/Base&view=pie&scale=x',
  )
  expect(errors.map(({ parameter }) => parameter)).toEqual([
    'measure', 'by', 'where', 'top', 'step', 'last', 'compare', 'tz', 'view', 'scale',
  ])
  expect(format(question)).toBe('by=a&by=b')
})

test('a series that is left alone gives its filters to the question', () => {
  const { question } = parseQuestion(new URLSearchParams('metric=a&where=country,=,FR&b.metric=b&b.where=level,=,3&formula=B / A'), 'UTC')
  const left = withoutSeries(question, 0)
  expect([left.series, left.formula]).toEqual([[{ ...question.series[1], where: [] }], ''])
  expect(left.where).toEqual([...question.where, ...(question.series[1]?.where ?? [])])
})
