/** Entry point for `<script src>`: the function is the only global. */
export { sha256 as default } from './sha256.js'
