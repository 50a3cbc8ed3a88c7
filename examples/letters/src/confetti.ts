/** Confetti; disabled if the user prefers reduced motion. */
import { reducedMotion } from './dom'

const COLOURS = ['#e5484d', '#f5a524', '#46a758', '#3b82f6', '#a855f7', '#ec4899']
const GRAVITY = 0.0011
const LIFE_MS = 1_900

interface Piece {
  x: number
  y: number
  vx: number
  vy: number
  turn: number
  spin: number
  size: number
  colour: string
  bornMs: number
}

export class Confetti {
  readonly #canvas: HTMLCanvasElement
  #pieces: Piece[] = []
  #lastMs = 0

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
  }

  /** Throws pieces up from the centre of an element. */
  burst(from: Element, pieces: number): void {
    if (reducedMotion.matches) return
    const { left, top, width, height } = from.getBoundingClientRect()
    const bornMs = performance.now()
    for (let n = 0; n < pieces; n++) {
      const angle = -Math.PI / 2 + (Math.random() - 0.5) * 2.4
      const speed = 0.25 + Math.random() * 0.55
      this.#pieces.push({
        x: left + width / 2,
        y: top + height / 2,
        vx: Math.cos(angle) * speed,
        vy: Math.sin(angle) * speed,
        turn: Math.random() * 6,
        spin: (Math.random() - 0.5) * 0.02,
        size: 6 + Math.random() * 8,
        colour: COLOURS[n % COLOURS.length]!,
        bornMs,
      })
    }
    if (this.#pieces.length === pieces) this.#start(bornMs)
  }

  #start(nowMs: number): void {
    this.#canvas.width = innerWidth
    this.#canvas.height = innerHeight
    this.#lastMs = nowMs
    requestAnimationFrame((ms) => this.#draw(ms))
  }

  #draw(nowMs: number): void {
    const pen = this.#canvas.getContext('2d')!
    const elapsedMs = Math.min(40, Math.max(0, nowMs - this.#lastMs))
    this.#lastMs = nowMs
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height)
    this.#pieces = this.#pieces.filter(({ bornMs }) => nowMs - bornMs < LIFE_MS)
    for (const piece of this.#pieces) {
      piece.vy += GRAVITY * elapsedMs
      piece.x += piece.vx * elapsedMs
      piece.y += piece.vy * elapsedMs
      piece.turn += piece.spin * elapsedMs
      pen.save()
      pen.globalAlpha = Math.min(1, (LIFE_MS - (nowMs - piece.bornMs)) / 400)
      pen.translate(piece.x, piece.y)
      pen.rotate(piece.turn)
      pen.fillStyle = piece.colour
      pen.fillRect(-piece.size / 2, -piece.size / 4, piece.size, piece.size / 2)
      pen.restore()
    }
    if (this.#pieces.length) requestAnimationFrame((ms) => this.#draw(ms))
  }
}
