/** Surveys as returned by the server, and the form of one. */
import { splitList } from '../../lists'
import { fromLocal, toLocal } from '../../zone'

export const KINDS = { scale: 'Scale', choice: 'Choice', text: 'Text' } as const
export type Kind = keyof typeof KINDS

export interface Question {
  key: string
  kind: Kind
  text: string
  /** The ends of a scale. */
  min?: number | null
  /** The end of a scale, or the greatest length of a text. */
  max?: number | null
  options?: string[]
}

type Audience = Partial<Record<'country' | 'platform' | 'version' | 'segment', string[]>>

export interface Survey {
  key: string
  title: string
  questions: Question[]
  audience?: Audience
  starts_at?: string | null
  ends_at?: string | null
  answers?: number
}

export type QuestionResult = { key: string; text: string; count: number } & (
  | { kind: 'scale'; mean: number | null; counts: { value: number; count: number }[] }
  | { kind: 'choice'; options: { option: string; count: number }[] }
  | { kind: 'text'; texts: { player: string; text: string; at: string }[] }
)

export interface SurveyResults {
  key: string
  title: string
  answers: number
  questions: QuestionResult[]
}

/** The form of a survey: every field is text. */
export interface SurveyDraft {
  key: string
  title: string
  starts_at: string
  ends_at: string
  country: string
  platform: string
  version: string
  segment: string
  questions: { id: number; key: string; kind: Kind; text: string; min: string; max: string; options: string }[]
}

let lastId = 0

export function newQuestion(number: number): SurveyDraft['questions'][number] {
  return { id: ++lastId, key: `q${number}`, kind: 'scale', text: '', min: '1', max: '5', options: '' }
}

/** Returns the form of a survey; of a new one, with one question. */
export function draftOf(survey: Survey | undefined, tz: string): SurveyDraft {
  const { key = '', title = '', questions, audience = {}, starts_at, ends_at } = survey ?? {}
  const listed = (name: keyof Audience) => (audience[name] ?? []).join(', ')
  return {
    key,
    title,
    starts_at: toLocal(starts_at ?? undefined, tz),
    ends_at: toLocal(ends_at ?? undefined, tz),
    country: listed('country'),
    platform: listed('platform'),
    version: listed('version'),
    segment: listed('segment'),
    questions: questions?.map(({ key, kind, text, min, max, options }) => ({
      id: ++lastId,
      key,
      kind,
      text,
      min: String(min ?? ''),
      max: String(max ?? ''),
      options: (options ?? []).join('\n'),
    })) ?? [newQuestion(1)],
  }
}

/** Returns the body of the request that saves the form, or the errors by field. */
export function bodyOf(draft: SurveyDraft, tz: string): { body: object } | { errors: Record<string, string> } {
  const errors: Record<string, string> = {}
  const time = (name: 'starts_at' | 'ends_at') => {
    if (!draft[name]) return {}
    const at = fromLocal(draft[name], tz)
    if (!at) errors[name] = 'Enter a date and a time, such as 2026-11-20 09:30.'
    return at ? { [name]: at } : {}
  }
  const times = { ...time('starts_at'), ...time('ends_at') }
  const audience = Object.fromEntries(
    (['country', 'platform', 'version', 'segment'] as const)
      .map((name) => [name, splitList(draft[name])] as const)
      .filter(([, values]) => values.length > 0),
  )
  const whole = (text: string) => (text.trim() === '' ? {} : Number(text))
  const questions = draft.questions.map(({ key, kind, text, min, max, options }) => ({
    key: key.trim(),
    kind,
    text: text.trim(),
    ...(kind === 'scale' && typeof whole(min) === 'number' ? { min: whole(min) } : {}),
    ...(kind !== 'choice' && typeof whole(max) === 'number' ? { max: whole(max) } : {}),
    ...(kind === 'choice' ? { options: options.split('\n').map((option) => option.trim()).filter(Boolean) } : {}),
  }))
  if (Object.keys(errors).length > 0) return { errors }
  return { body: { title: draft.title.trim(), questions, audience, ...times } }
}
