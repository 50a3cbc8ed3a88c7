/**
 * The SQL editor: CodeMirror in a shadow root, because the security policy forbids the style elements that it would add
 * to the page. A shadow root gets constructed style sheets instead.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { sql, SQLDialect } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorState, Prec } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from '@codemirror/view'
import { tags } from '@lezer/highlight'

/** Columns by table. */
export type SqlSchema = Record<string, string[]>

export interface Editor {
  text(): string
  /** The selected text and the position of the cursor. */
  selection(): { text: string; at: number }
  setText(text: string): void
  insert(text: string): void
  setSchema(schema: SqlSchema): void
  focus(): void
  destroy(): void
}

export interface EditorOptions {
  text: string
  schema: SqlSchema
  onChange: (text: string) => void
  onRun: () => void
}

/** The words of DuckDB that read. Column names such as `event` and `day` are no keywords there. */
const DUCKDB = SQLDialect.define({
  keywords:
    'select distinct on from where group by all having qualify order asc desc nulls first last limit offset as and or not in is null like ilike similar to between exists case when then else end join inner left right full outer cross natural asof lateral using with recursive union intersect except values table over partition rows range groups preceding following unbounded current row filter window within sample tablesample pivot unpivot for describe show summarize explain analyze cast try_cast interval at time zone true false exclude replace columns materialized escape collate any some',
  types:
    'bigint integer int smallint tinyint hugeint ubigint uinteger usmallint utinyint double float real decimal numeric varchar text boolean bool date timestamp timestamptz blob json uuid struct list map',
  builtin:
    'count sum avg min max median quantile_cont approx_count_distinct any_value arg_max arg_min date_trunc date_part extract strftime now coalesce nullif greatest least round floor ceil abs length lower upper substring split_part regexp_matches regexp_extract list string_agg row_number rank dense_rank lag lead',
  doubleQuotedStrings: false,
  doubleDollarQuotedStrings: true,
  slashComments: false,
  spaceAfterDashes: false,
})

const COLORS = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent-text)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--late)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--duplicate)' },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--limited)' },
])

const THEME = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'transparent', fontSize: '0.8125rem' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { padding: '0.625rem 0', caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--muted)', border: '0', paddingLeft: '0.375rem' },
  '.cm-activeLine': { backgroundColor: 'var(--hover)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--accent-wash)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '.cm-tooltip': { border: '1px solid var(--line-strong)', borderRadius: 'var(--radius-small)', backgroundColor: 'var(--card)', color: 'var(--text)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', maxHeight: '14rem' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '0.125rem 0.5rem' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
})

/**
 * Replaces a selection by what is typed, before the browser does: its own editing adds elements with inline styles, which
 * the security policy reports as errors.
 */
const REPLACE_SELECTION = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main
    const typed = event.data
    if (event.inputType !== 'insertText' || typed === null || empty || view.composing) return false
    event.preventDefault()
    const insert = () => view.state.update(view.state.replaceSelection(typed), { userEvent: 'input.type', scrollIntoView: true })
    const isHandled = view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, typed, insert))
    if (!isHandled) view.dispatch(insert())
    return true
  },
})

/** Creates an editor within `host`, which must be empty. */
export function createEditor(host: HTMLElement, { text, schema, onChange, onRun }: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const language = new Compartment()
  const languageOf = (schema: SqlSchema) => sql({ dialect: DUCKDB, schema, upperCaseKeywords: true })
  const run = () => {
    onRun()
    return true
  }
  const state = EditorState.create({
    doc: text,
    extensions: [
      Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
      lineNumbers(),
      history(),
      drawSelection(),
      bracketMatching(),
      closeBrackets(),
      autocompletion(),
      highlightActiveLine(),
      syntaxHighlighting(COLORS),
      THEME,
      REPLACE_SELECTION,
      // Tab moves the focus: an editor that keeps it would be a trap for the keyboard.
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
      language.of(languageOf(schema)),
      placeholder('SELECT event, count(*) FROM events GROUP BY event'),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'SQL', spellcheck: 'false' }),
      EditorView.updateListener.of(({ docChanged, state }) => docChanged && onChange(state.doc.toString())),
    ],
  })
  const view = new EditorView({ state, root, parent: root })
  const replace = (from: number, to: number, insert: string) =>
    view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length } })
  return {
    text: () => view.state.doc.toString(),
    selection() {
      const { from, to, head } = view.state.selection.main
      return { text: view.state.sliceDoc(from, to), at: head }
    },
    setText: (text) => replace(0, view.state.doc.length, text),
    insert(text) {
      const { from, to } = view.state.selection.main
      replace(from, to, text)
      view.focus()
    },
    setSchema: (schema) => view.dispatch({ effects: language.reconfigure(languageOf(schema)) }),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  }
}
