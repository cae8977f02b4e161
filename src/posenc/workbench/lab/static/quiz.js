// Room 8: placeholder until the cards exist.
export class Quiz {}
