import { expect, test } from 'vitest'
import { statementAt, statements } from './statement'

const texts = (text: string) => statements(text).map(({ from, to }) => text.slice(from, to))

test('statements are split at semicolons', () => {
  expect(texts('select 1; \n select 2 ;')).toEqual(['select 1', 'select 2'])
  expect(texts(' ;; ')).toEqual([])
})

test('a semicolon in a text, a name or a comment ends nothing', () => {
  for (const text of [`select ';', "a;b"`, `select 'it''s; fine'`, 'select 1 -- no; end\n + 2', 'select /* ; */ 1', 'select $$;$$, $a$ ; $$ ; $a$']) {
    expect(texts(text)).toEqual([text])
  }
})

test('a text that is not closed reaches to the end', () => {
  expect(texts(`select 'open; select 2`)).toEqual([`select 'open; select 2`])
})

test('the statement at the cursor is the one that contains it, or the one before', () => {
  const text = 'select 1;\n\nselect 2; '
  const at = (position: number) => {
    const found = statementAt(text, position)
    return found && text.slice(found.from, found.to)
  }
  expect(at(0)).toBe('select 1')
  expect(at(8)).toBe('select 1')
  expect(at(9)).toBe('select 1')
  expect(at(11)).toBe('select 2')
  expect(at(text.length)).toBe('select 2')
  expect(statementAt('  ', 1)).toBeUndefined()
})
