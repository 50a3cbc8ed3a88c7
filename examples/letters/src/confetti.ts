/** Paper in the air. None for those who asked for less motion. */
import { calm } from './dom'

const COLOURS = ['#e5484d', '#f5a524', '#46a758', '#3b82f6', '#a855f7', '#ec4899']
const GRAVITY = 0.0011
const LIFE_MS = 1_900

interface Paper {
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
  #papers: Paper[] = []
  #lastMs = 0

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas
  }

  /** Throws so many pieces up from the middle of an element. */
  burst(from: Element, pieces: number): void {
    if (calm.matches) return
    const { left, top, width, height } = from.getBoundingClientRect()
    const bornMs = performance.now()
    for (let n = 0; n < pieces; n++) {
      const angle = -Math.PI / 2 + (Math.random() - 0.5) * 2.4
      const speed = 0.25 + Math.random() * 0.55
      this.#papers.push({
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
    if (this.#papers.length === pieces) this.#start(bornMs)
  }

  #start(nowMs: number): void {
    this.#canvas.width = innerWidth
    this.#canvas.height = innerHeight
    this.#lastMs = nowMs
    requestAnimationFrame((ms) => this.#draw(ms))
  }

  #draw(nowMs: number): void {
    const pen = this.#canvas.getContext('2d')!
    const passed = Math.min(40, Math.max(0, nowMs - this.#lastMs))
    this.#lastMs = nowMs
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height)
    this.#papers = this.#papers.filter(({ bornMs }) => nowMs - bornMs < LIFE_MS)
    for (const paper of this.#papers) {
      paper.vy += GRAVITY * passed
      paper.x += paper.vx * passed
      paper.y += paper.vy * passed
      paper.turn += paper.spin * passed
      pen.save()
      pen.globalAlpha = Math.min(1, (LIFE_MS - (nowMs - paper.bornMs)) / 400)
      pen.translate(paper.x, paper.y)
      pen.rotate(paper.turn)
      pen.fillStyle = paper.colour
      pen.fillRect(-paper.size / 2, -paper.size / 4, paper.size, paper.size / 2)
      pen.restore()
    }
    if (this.#papers.length) requestAnimationFrame((ms) => this.#draw(ms))
  }
}
