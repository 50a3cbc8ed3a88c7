/** The faces of the animals, SVG drawings of 100 by 100 units. */
import { picture } from './dom'
import type { Animal } from './names'

const DARK = '#33263b'

function eyes(y: number, apart: number): string {
  const eye = (x: number) =>
    `<ellipse cx="${x}" cy="${y}" rx="5" ry="6" fill="${DARK}"/><circle cx="${x + 1.8}" cy="${y - 2.2}" r="1.9" fill="#fff"/>`
  return eye(50 - apart) + eye(50 + apart)
}

function cheeks(y: number, apart: number, colour = '#ff8f8f'): string {
  return `<g fill="${colour}" opacity=".6"><circle cx="${50 - apart}" cy="${y}" r="6"/><circle cx="${50 + apart}" cy="${y}" r="6"/></g>`
}

/** A small w below a nose. */
function mouth(y: number): string {
  return `<path d="M50 ${y - 5}v5m-8 0q4 5 8 0q4 5 8 0" fill="none" stroke="${DARK}" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round"/>`
}

function nose(y: number, colour = DARK): string {
  return `<path d="M44 ${y - 3}q6-3 12 0q0 7-6 8q-6-1-6-8z" fill="${colour}"/>`
}

const FACES: Record<Animal, string> = {
  Bear: `<g fill="#9c5f34"><circle cx="23" cy="26" r="15"/><circle cx="77" cy="26" r="15"/></g>
    <g fill="#e3b07e"><circle cx="23" cy="26" r="8"/><circle cx="77" cy="26" r="8"/></g>
    <ellipse cx="50" cy="55" rx="40" ry="37" fill="#b87544"/><ellipse cx="50" cy="70" rx="19" ry="15" fill="#f6dcb8"/>
    ${eyes(50, 17)}${nose(63)}${mouth(74)}${cheeks(64, 28)}`,
  Cat: `<g fill="#e98a1f" stroke="#e98a1f" stroke-width="7" stroke-linejoin="round"><path d="M17 48 19 14l26 18z"/><path d="M83 48 81 14 55 32z"/></g>
    <g fill="#ffc9b0"><path d="M23 38 24 22l13 9z"/><path d="M77 38 76 22l-13 9z"/></g>
    <ellipse cx="50" cy="58" rx="40" ry="34" fill="#f9a83e"/>
    <g stroke="#d97812" stroke-width="5" stroke-linecap="round"><path d="M50 28v11"/><path d="M38 30l2 8"/><path d="M62 30l-2 8"/></g>
    <ellipse cx="50" cy="71" rx="17" ry="12" fill="#fff0d9"/>${eyes(54, 18)}${nose(65, '#e2607a')}${mouth(75)}${cheeks(68, 29)}
    <g stroke="#8f5413" stroke-width="2" stroke-linecap="round"><path d="M4 60l14 3M4 73l14-2M96 60l-14 3M96 73l-14-2"/></g>`,
  Fox: `<g fill="#d9541e" stroke="#d9541e" stroke-width="6" stroke-linejoin="round"><path d="M14 46 12 12l26 20z"/><path d="M86 46 88 12 62 32z"/></g>
    <g fill="#4a2a33"><path d="M17 30 16 18l11 8z"/><path d="M83 30 84 18 73 26z"/></g>
    <path d="M50 22c28 0 42 16 41 34-1 20-22 36-41 36S10 76 9 56c-1-18 13-34 41-34z" fill="#ef6f2e"/>
    <path d="M9 58c18-8 34 0 41 20 7-20 23-28 41-20-2 19-22 34-41 34S11 77 9 58z" fill="#fff3e4"/>
    ${eyes(52, 19)}<ellipse cx="50" cy="78" rx="7" ry="5.5" fill="${DARK}"/>${cheeks(69, 29)}`,
  Frog: `<g fill="#4fa83d"><circle cx="27" cy="30" r="19"/><circle cx="73" cy="30" r="19"/></g>
    <ellipse cx="50" cy="60" rx="43" ry="33" fill="#63c04d"/>
    <g fill="#fff"><circle cx="27" cy="30" r="12"/><circle cx="73" cy="30" r="12"/></g>
    <g fill="${DARK}"><circle cx="29" cy="31" r="7"/><circle cx="71" cy="31" r="7"/></g>
    <g fill="#fff"><circle cx="31.5" cy="28" r="2.4"/><circle cx="73.5" cy="28" r="2.4"/></g>
    <path d="M24 64q26 26 52 0" fill="#a9323f" stroke="${DARK}" stroke-width="3" stroke-linejoin="round"/>
    <path d="M38 73q12-8 24 0q-12 9-24 0z" fill="#ff8a94"/><g fill="#2f7a27"><circle cx="44" cy="52" r="2"/><circle cx="56" cy="52" r="2"/></g>${cheeks(62, 36)}`,
  Owl: `<path d="M12 16q18 2 26 12h24q8-10 26-12q2 20-4 34H16q-6-14-4-34z" fill="#6a4fb5"/>
    <ellipse cx="50" cy="57" rx="40" ry="37" fill="#8064cf"/><path d="M26 74q24-18 48 0q-4 20-24 20t-24-20z" fill="#d8c9ff"/>
    <g fill="none" stroke="#8064cf" stroke-width="2.6" stroke-linecap="round"><path d="M38 78q4 4 8 0M54 78q4 4 8 0M46 86q4 4 8 0"/></g>
    <g fill="#fff8e8"><circle cx="32" cy="49" r="18"/><circle cx="68" cy="49" r="18"/></g>
    <g fill="${DARK}"><circle cx="34" cy="50" r="9"/><circle cx="66" cy="50" r="9"/></g>
    <g fill="#fff"><circle cx="37" cy="46.5" r="3"/><circle cx="69" cy="46.5" r="3"/></g>
    <path d="M50 54l8 8q-2 9-8 11q-6-2-8-11z" fill="#f7a326"/>`,
  Panda: `<g fill="#3a3442"><circle cx="22" cy="26" r="16"/><circle cx="78" cy="26" r="16"/></g>
    <ellipse cx="50" cy="56" rx="41" ry="37" fill="#fdfbf7"/><path d="M50 93c22 0 41-16 41-37 0-4-1-8-2-11-4 22-20 34-39 34S15 67 11 45c-1 3-2 7-2 11 0 21 19 37 41 37z" fill="#e6e1ea"/>
    <g fill="#3a3442"><ellipse cx="31" cy="53" rx="11" ry="14" transform="rotate(24 31 53)"/><ellipse cx="69" cy="53" rx="11" ry="14" transform="rotate(-24 69 53)"/></g>
    <g fill="#fff"><circle cx="33" cy="51" r="5.5"/><circle cx="67" cy="51" r="5.5"/></g><g fill="${DARK}"><circle cx="34" cy="51.5" r="3.4"/><circle cx="66" cy="51.5" r="3.4"/></g>
    ${nose(67)}${mouth(78)}${cheeks(73, 27)}`,
  Pig: `<g fill="#ec7f9b" stroke="#ec7f9b" stroke-width="7" stroke-linejoin="round"><path d="M18 40 16 18l22 10z"/><path d="M82 40 84 18 62 28z"/></g>
    <ellipse cx="50" cy="57" rx="41" ry="36" fill="#fba6bb"/><ellipse cx="50" cy="66" rx="18" ry="13" fill="#ee7d99"/>
    <g fill="#b54664"><ellipse cx="43.5" cy="66" rx="3.6" ry="5"/><ellipse cx="56.5" cy="66" rx="3.6" ry="5"/></g>${eyes(48, 20)}
    <path d="M41 84q9 6 18 0" fill="none" stroke="#b54664" stroke-width="2.6" stroke-linecap="round"/>${cheeks(64, 31, '#f4627f')}`,
  Rabbit: `<g fill="#b9c0d6"><ellipse cx="33" cy="26" rx="12" ry="25" transform="rotate(-8 33 26)"/><ellipse cx="67" cy="26" rx="12" ry="25" transform="rotate(8 67 26)"/></g>
    <g fill="#ffc2cf"><ellipse cx="33" cy="27" rx="6" ry="18" transform="rotate(-8 33 27)"/><ellipse cx="67" cy="27" rx="6" ry="18" transform="rotate(8 67 27)"/></g>
    <ellipse cx="50" cy="64" rx="37" ry="31" fill="#d6dbea"/><g fill="#f7f8fd"><circle cx="42" cy="75" r="11"/><circle cx="58" cy="75" r="11"/></g>
    <path d="M45 79h10v7q-5 3-10 0z" fill="#fff" stroke="#a9b0c8" stroke-width="1.6"/>${eyes(59, 18)}${nose(69, '#e2607a')}${mouth(79)}${cheeks(72, 28)}`,
}

export function face(animal: Animal): SVGElement {
  return picture(FACES[animal], 'face')
}
