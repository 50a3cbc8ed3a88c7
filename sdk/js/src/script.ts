/** Entry point for `<script src>`: the class is the only global. Errors are distinguished by their `code`. */
export { Playmeter as default } from './playmeter.js'
