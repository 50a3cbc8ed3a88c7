/** Arithmetic over series, such as `A / B`: numbers, letters, `+ - * /` and parentheses. */

/** Computes a formula; `null` if a value is missing or the result is not a number, as after a division by zero. */
export type Formula = (value: (name: string) => number | null) => number | null

type Operator = (left: number, right: number) => number
const SUMS: Record<string, Operator> = { '+': (a, b) => a + b, '-': (a, b) => a - b }
const PRODUCTS: Record<string, Operator> = { '*': (a, b) => a * b, '/': (a, b) => a / b }

/** Parses a formula. Throws an `Error` whose message says what is wrong. */
export function parseFormula(text: string, names: readonly string[]): Formula {
  const tokens = text.match(/\d+(?:\.\d+)?|\w+|\S/g) ?? []
  let next = 0

  function chain(operand: () => Formula, operators: Record<string, Operator>): Formula {
    let left = operand()
    for (let apply = operators[tokens[next] ?? '']; apply; apply = operators[tokens[next] ?? '']) {
      next += 1
      left = binary(left, apply, operand())
    }
    return left
  }
  const sum = (): Formula => chain(product, SUMS)
  const product = (): Formula => chain(atom, PRODUCTS)

  function atom(): Formula {
    const token = tokens[next]
    next += 1
    if (token === undefined) throw new Error('The formula ends too early.')
    if (token === '-') return binary(() => 0, (a, b) => a - b, atom())
    if (token === '(') {
      const inner = sum()
      if (tokens[next] !== ')') throw new Error('A closing parenthesis is missing.')
      next += 1
      return inner
    }
    if (/^\d/.test(token)) {
      const number = Number(token)
      return () => number
    }
    if (!names.includes(token)) throw new Error(`"${token}" is not a series. Use ${names.join(', ')}, numbers, + - * / and parentheses.`)
    return (value) => value(token)
  }

  const formula = sum()
  if (next < tokens.length) throw new Error(`"${tokens[next]}" is not expected here.`)
  return formula
}

function binary(left: Formula, apply: Operator, right: Formula): Formula {
  return (value) => {
    const [a, b] = [left(value), right(value)]
    if (a === null || b === null) return null
    const result = apply(a, b)
    return Number.isFinite(result) ? result : null
  }
}
